// The token, the clock, and keys. What is shown comes from the program as HTML, by htmx.
"use strict";
(() => {
  const KEY = "mercato-token", TOKEN = /^#([\w-]{43})$/;
  const at = (selector) => document.querySelector(selector);
  const token = () => localStorage.getItem(KEY);
  const looks = () => document.visibilityState === "visible";
  // Something was changed in the form, and is not asked for yet.
  let changed = false;

  // The fragment is not sent by the browser. It is kept by this origin alone, and leaves the address bar.
  function take() {
    const given = TOKEN.exec(location.hash);
    if (!given) return;
    localStorage.setItem(KEY, given[1]);
    history.replaceState(history.state, "", location.pathname + location.search);
  }

  function show() {
    if (!token()) return at("#screen").replaceChildren(at("#closed").content.cloneNode(true));
    const news = at("#news");
    news.setAttribute("hx-get", "/news");
    news.setAttribute("hx-trigger", "tick");
    news.setAttribute("hx-target", "this");
    news.setAttribute("hx-sync", "this:drop");
    htmx.process(news);
    const here = location.pathname + location.search;
    const headers = { "Mercato-First": "true" };
    htmx.ajax("GET", here, { source: "#screen", target: "#screen", swap: "outerMorph", headers });
    tick();
  }

  function tick() {
    const news = at("#news");
    if (looks() && news.hasAttribute("hx-get")) htmx.trigger(news, "tick");
  }

  function arrived() {
    const screen = at("#screen");
    for (const link of document.querySelectorAll("nav [data-screen]")) {
      if (link.dataset.screen === screen.dataset.here) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (changed) return;
    // What the program says is chosen is chosen, whatever was clicked before.
    for (const box of screen.querySelectorAll("input[type=checkbox]")) box.checked = box.defaultChecked;
    for (const list of screen.querySelectorAll("select")) {
      const chosen = list.querySelector("option[selected]");
      if (list !== document.activeElement) list.value = chosen ? chosen.value : "";
    }
  }

  async function copy(button) {
    await navigator.clipboard.writeText(button.dataset.copy);
    const said = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = said; }, 1500);
  }

  // A link cannot show the token: the file is fetched, and given to the browser as one.
  async function save(button) {
    const answer = await fetch(button.dataset.save, { headers: { "Mercato-Token": token(), "HX-Request": "true" } });
    const text = await answer.text();
    if (!answer.ok) { button.nextElementSibling.textContent = text; return; }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function clicked(event) {
    const button = event.target.closest("[data-copy], [data-save]");
    if (!button) return;
    if (button.dataset.copy !== undefined) copy(button);
    else save(button);
  }

  function pressed(event) {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "Escape" && typing) return typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = at("#q");
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
    const link = { n: "now", m: "market", l: "leases" }[event.key];
    if (link) at(`nav [data-screen=${link}]`).click();
  }

  document.addEventListener("htmx:config:request", (event) => {
    event.detail.ctx.request.headers["Mercato-Token"] = token() ?? "";
    // The form asks, or a link: not the clock.
    if (!["news", "screen"].includes(event.detail.ctx.sourceElement?.id)) changed = false;
  });
  document.addEventListener("htmx:after:swap", arrived);
  document.addEventListener("htmx:after:request", () => at("body > .gone")?.remove());
  document.addEventListener("htmx:error", (event) => {
    if (event.detail.ctx?.response || at("body > .gone")) return;
    const told = document.createElement("div");
    told.className = "gone";
    told.append(at("#gone").content.cloneNode(true));
    at("header").after(told);
  });
  document.addEventListener("input", () => { changed = true; });
  document.addEventListener("click", clicked);
  document.addEventListener("keydown", pressed);
  document.addEventListener("visibilitychange", tick);
  addEventListener("hashchange", () => { if (TOKEN.test(location.hash)) { take(); show(); } });
  document.addEventListener("DOMContentLoaded", () => {
    take();
    show();
    setInterval(tick, 1000);
  });
})();
