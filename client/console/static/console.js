// What the pages do besides showing: all of them work without it, except for the live tail.
"use strict";

(function theme() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* Storage may be switched off. */ }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  button.hidden = false;
  button.addEventListener("click", () => {
    const systemIsDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* For this page only. */ }
  });
})();

(function currentPage() {
  const parts = { brokers: "cluster", group: "groups" };
  const part = location.pathname.split("/")[1];
  const link = document.querySelector(`header nav a[href="/${CSS.escape(parts[part] || part)}"]`);
  if (link) link.setAttribute("aria-current", "page");
})();

(function liveTail() {
  const button = document.getElementById("tail");
  if (!button) return;
  const rowsMax = 500;
  const state = document.getElementById("state");
  const body = document.querySelector("#records tbody");
  let source = null, shown = 0, skipped = 0;
  const say = (text) => { state.textContent = text; };
  const stop = (text) => {
    if (source) source.close();
    source = null;
    button.textContent = "Live tail";
    say(text);
  };
  // Text only: what a record holds is never read as HTML.
  const cell = (row, part) => {
    const field = row.insertCell();
    if (part.text === null) { field.textContent = "null"; return; }
    const text = document.createElement("pre");
    text.textContent = part.text + (part.is_cut ? "\n… cut, " + part.size_bytes + " bytes in all" : "");
    field.append(text);
  };
  const add = (record) => {
    const row = body.insertRow(0);
    row.insertCell().textContent = record.partition;
    row.insertCell().textContent = record.offset;
    row.insertCell().textContent = new Date(record.timestamp).toISOString();
    cell(row, record.key);
    cell(row, record.value);
    row.insertCell().textContent = record.headers.map((one) => one.name + ": " + one.text).join("\n");
    while (body.rows.length > rowsMax) body.deleteRow(-1);
    shown += 1;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    if (source) { stop("Stopped after " + shown + " new records."); return; }
    const asked = new URLSearchParams(new FormData(button.form));
    source = new EventSource(button.dataset.tail + "?" + asked);
    shown = skipped = 0;
    body.replaceChildren();
    button.textContent = "Stop";
    source.addEventListener("ready", () => say("Waiting for new records."));
    source.addEventListener("record", (sent) => {
      add(JSON.parse(sent.data));
      say(shown + " new records" + (skipped ? ", " + skipped + " more were too many to show." : "."));
    });
    source.addEventListener("skipped", (sent) => { skipped += JSON.parse(sent.data).records; });
    source.addEventListener("failure", (sent) => stop(JSON.parse(sent.data).error));
    source.onerror = () => stop("The live tail has ended: the console does not answer.");
  });
})();

(function alive() {
  const part = document.getElementById("alive");
  if (!part || part.dataset.back !== "0") return;
  // The page of the server, escaped there, again and again; scripts in it would not run.
  const renew = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.pathname);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("alive");
        if (answer.ok && fresh) document.getElementById("alive").replaceWith(fresh);
      } catch { /* The console does not answer now: the next attempt may. */ }
    }
    setTimeout(renew, 2000);
  };
  setTimeout(renew, 2000);
})();
