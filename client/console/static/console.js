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
  if (!part) return;
  const form = document.getElementById("alive-form");
  const news = document.getElementById("news");
  const back = document.getElementById("back");
  let source = null, told = null, asked = null;
  // The part of the page as the server writes it, escaped there; scripts in it would not run. What
  // is the same stays, so that bars move and a reader keeps the place.
  const sync = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const olds = [...old.childNodes], freshes = [...fresh.childNodes];
    freshes.forEach((one, index) => {
      if (index < olds.length) sync(olds[index], one);
      else old.append(document.importNode(one, true));
    });
    olds.slice(freshes.length).forEach((one) => one.remove());
  };
  const show = (html) => {
    const fresh = new DOMParser().parseFromString("<div>" + html + "</div>", "text/html").body.firstChild;
    const wrapper = part.cloneNode(false);
    wrapper.append(...fresh.childNodes);
    sync(part, wrapper);
  };
  const say = (change) => {
    const text = change.topic === null ? change.sentence
      : change.topic + "-" + change.partition + ": " + change.sentence;
    if (told !== null && told !== change.at_ms + text) news.textContent = text;
    told = change.at_ms + text;
  };
  const query = () => new URLSearchParams(new FormData(form));
  const leave = () => { if (source) source.close(); source = null; };
  const follow = () => {
    leave();
    if (document.hidden || Number(back.value) !== 0) return;
    source = new EventSource(part.dataset.events + "?" + query());
    source.addEventListener("alive", (sent) => {
      const found = JSON.parse(sent.data);
      show(found.html);
      if (found.news) say(found.news); else told = "";
      part.dataset.live = "1";
    });
    source.addEventListener("failure", (sent) => { news.textContent = JSON.parse(sent.data).error; });
  };
  const look = async () => {
    const wanted = asked = query().toString();
    try {
      const answer = await fetch(form.action + "?" + wanted);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("alive");
      if (answer.ok && fresh && wanted === asked) show(fresh.innerHTML);
    } catch { /* The console does not answer now: the next attempt may. */ }
  };
  const name = () => {
    const minutes = Math.floor(back.value / 60), seconds = back.value % 60;
    back.setAttribute("aria-valuetext", Number(back.value) === 0 ? "now" : minutes + " min " + seconds + " s ago");
  };
  let timer = 0;
  back.addEventListener("input", () => {
    name();
    clearTimeout(timer);
    timer = setTimeout(() => { follow(); if (!source) look(); }, 150);
  });
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", leave);
  name();
  follow();
})();
