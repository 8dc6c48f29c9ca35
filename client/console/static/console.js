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
  for (const link of document.querySelectorAll("header nav a")) {
    if (location.pathname.startsWith(link.getAttribute("href"))) link.setAttribute("aria-current", "page");
  }
})();
