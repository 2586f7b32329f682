// What a page cannot do by itself: keys, theme, copying, folding, local times, and news from the server.
// Everything but liveness works without this file.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// ---- theme, menu, copying, folding
$(".theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = getComputedStyle(root).colorScheme === "dark" ? "light" : "dark";
  keep("theme", root.dataset.theme);
});
$(".menu").addEventListener("click", (event) => {
  event.preventDefault();
  const open = document.body.classList.toggle("menu-open");
  event.currentTarget.setAttribute("aria-expanded", String(open));
});
function keep(name, value) {
  try { localStorage.setItem(name, value); } catch { /* private windows keep nothing */ }
}
function kept(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

document.addEventListener("click", (event) => {
  const fold = event.target.closest(".fold");
  if (fold) toggle(fold);
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  if (event.target.closest("[data-news]")) refresh();
});
function toggle(fold) {
  const open = fold.getAttribute("aria-expanded") !== "true";
  fold.setAttribute("aria-expanded", String(open));
  fold.closest("tbody").classList.toggle("folded", !open);
}
// What is copied is what is stored, not what is shown: shown values are cut and have their invisible characters marked.
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  let text = source.textContent;
  if (source.dataset.exact) {
    const answer = await fetch(source.dataset.exact);
    text = await answer.text();
  }
  await navigator.clipboard.writeText(text);
  const word = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = word; }, 1500);
}

// ---- times in the reader's zone; `u` shows UTC
const HOW = {
  day: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" },
  clock: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
};
function localTimes(root = document) {
  const zone = kept("utc") === "1" ? { timeZone: "UTC", timeZoneName: "short" } : {};
  for (const time of all("time[data-how]", root)) {
    const moment = new Date(time.dateTime);
    time.title = moment.toLocaleString("en-GB", { ...HOW.clock, timeZoneName: "short", ...zone });
    if (HOW[time.dataset.how]) time.textContent = moment.toLocaleString("en-GB", { ...HOW[time.dataset.how], ...zone });
  }
}
localTimes();

// ---- keys: none acts while somebody types, and none decides alone
const GO = { t: "", r: "review", s: "sessions", c: "calls", l: "learned", a: "audit" };
let chord = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if ($("#keys").open) return;
  const key = chord + event.key;
  chord = "";
  if (key.length === 2 && key[0] === "g" && key[1] in GO) location.href = `/console/${GO[key[1]]}`;
  else if (key in KEYS) KEYS[key](event);
});
const KEYS = {
  "/": (event) => { event.preventDefault(); $("#find").focus(); },
  "?": () => $("#keys").showModal(),
  g: () => { chord = "g"; setTimeout(() => { chord = ""; }, 900); },
  j: () => step(1, "[data-rows] tbody th a, [data-rows] tbody td:first-child a, [data-rows] tbody td:nth-child(2) a, [data-rows] > li > a"),
  k: () => step(-1, "[data-rows] tbody th a, [data-rows] tbody td:first-child a, [data-rows] tbody td:nth-child(2) a, [data-rows] > li > a"),
  e: () => step(1, "[data-rows] tr.failed a"),
  b: () => step(1, "[data-branch]"),
  x: () => { const fold = document.activeElement.closest("tbody")?.querySelector(".fold"); if (fold) toggle(fold); },
  u: () => { keep("utc", kept("utc") === "1" ? "0" : "1"); localTimes(); },
  ".": () => { if (!$(".news")?.hidden) refresh(); },
  "[": () => neighbour(-1),
  "]": () => neighbour(1),
  a: () => arm("yes"), 1: () => arm("yes"),
  d: () => arm("no"), 2: () => arm("no"),
  n: () => { const later = $("[data-key=later]"); if (later) location.href = later.href; },
  Escape: () => { const close = $("#side .close"); if (close) location.href = close.href; },
};
function step(by, selector) {
  const links = all(selector).filter((link) => link.offsetParent !== null || link.getClientRects().length);
  const rows = [...new Map(links.map((link) => [link.closest("tr, li, [data-branch]"), link]).reverse()).values()].reverse();
  const at = rows.findIndex((link) => link === document.activeElement);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}
// A key only moves to the button; Enter on it decides.
function arm(which) {
  const button = $(`[data-decides] [data-key=${which}]`);
  if (!button) return;
  all("[data-armed]").forEach((each) => each.removeAttribute("data-armed"));
  button.setAttribute("data-armed", "");
  button.focus();
}

// ---- the neighbours of a detail are those of the list that it was opened from
if ($("[data-rows]") && !$("[data-neighbours]")) {
  const links = all(".sessions td.id a").map((link) => link.getAttribute("href"));
  if (links.length) try { sessionStorage.setItem("rows", JSON.stringify(links)); } catch { /* full or forbidden */ }
}
function neighbour(by) {
  if (!$("[data-neighbours]")) return;
  let links = [];
  try { links = JSON.parse(sessionStorage.getItem("rows") || "[]"); } catch { /* forbidden */ }
  const next = links[links.indexOf(location.pathname) + by];
  if (links.includes(location.pathname) && next) location.href = next;
}

// ---- a broad picture begins where its chosen part is
{
  const box = $(".picture .scroll");
  const part = $(".picture .chosen");
  if (box && part) box.scrollLeft += part.getBoundingClientRect().x - box.getBoundingClientRect().x - box.clientWidth / 2;
}

// ---- the chosen call
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id !== "side") return;
  const page = event.detail.target.closest(".page");
  page.classList.add("with-side");
  localTimes(event.detail.target);
  const chosen = new URLSearchParams(location.search).get("call");
  all("tr[aria-selected]").forEach((row) => row.removeAttribute("aria-selected"));
  document.getElementById(`call-${chosen}`)?.setAttribute("aria-selected", "true");
});

// ---- news: one stream for all pages of this browser, because a browser opens six connections to a server and no more
const lamp = $("#live");
// Each topic that the page is about: how many seconds apart it may make the page ask again, because calls come in swarms,
// and digests of the ids that the page shows, where it does not show all.
let topics = topicsOf(lamp);
// Whether the page shows history, on which news waits behind a button.
let held = "held" in lamp.dataset;
function topicsOf({ dataset }) {
  return new Map(dataset.live.split(" ").filter(Boolean).map((word) => {
    const [, topic, apart, ids] = word.match(/^(\w+)(?:\/(\d+))?(?:=(.*))?$/);
    return [topic, { apart: Number(apart || 0), ids: ids === undefined ? null : new Set(ids.split(",")) }];
  }));
}
function concerns({ topic, about }) {
  if (!topics.size || topic === null) return topics.size > 0;
  const ids = topics.get(topic)?.ids;
  return topics.has(topic) && (!ids || about === null || ids.has(about));
}
// Where news comes all the time, a page goes on once a second.
const PAUSE_MS = 1000;
// A page that is dear to make is asked for less often: its server makes it with rests, and then rests some more.
const PAUSE_PER_MS = 5;
const LONGEST_PAUSE_MS = 10_000;
let asked = performance.now();
let due = 0;
let busy = false;
let again = false;
// What was told while the page was asked for, and did not concern what it showed before.
let meanwhile = [];
let stale = false;
let leaving = false;
addEventListener("submit", () => { leaving = true; });
addEventListener("pageshow", () => { leaving = false; });

// The page as it is now, put over the page that is there: focus, scroll, what is folded and what is typed stay.
async function refresh() {
  // What a form changes is seen on the page that it leads to.
  if (leaving) return;
  // Nothing is made for a page that nobody sees; it is asked for when it is seen again.
  if (document.hidden) { stale = true; return; }
  if (busy) { again = true; return; }
  busy = true;
  meanwhile = [];
  asked = performance.now();
  let took = 0;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Live": "1" } });
    if (answer.redirected && new URL(answer.url).pathname === "/console/sign-in") { location.reload(); return; }
    if (answer.ok) {
      const text = await answer.text();
      took = performance.now() - asked;
      const fresh = new DOMParser().parseFromString(text, "text/html");
      localTimes(fresh);
      for (const part of ["#main", "#nav", ".same"]) put($(part), $(part, fresh));
      topics = topicsOf($("#live", fresh));
      held = "held" in $("#live", fresh).dataset;
      again ||= meanwhile.some(concerns);
      stale = false;
    }
  } catch { /* the stream says when the server is back */ } finally {
    setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, Math.min(Math.max(PAUSE_MS, PAUSE_PER_MS * took), LONGEST_PAUSE_MS));
  }
}
function put(now, fresh) {
  if (!now || !fresh) return;
  const typed = fieldsOf(now);
  for (const [place, field] of fieldsOf(fresh)) if (typed.has(place)) carry(typed.get(place), field);
  const open = placesOf(now, "details");
  for (const [place, each] of placesOf(fresh, "details")) if (open.get(place)?.open) each.open = true;
  for (const body of all("tbody.folded", now)) {
    const same = body.id && fresh.querySelector(`#${CSS.escape(body.id)}`);
    if (same) { same.classList.add("folded"); same.querySelector(".fold")?.setAttribute("aria-expanded", "false"); }
  }
  Idiomorph.morph(now, fresh, { morphStyle: "outerHTML", ignoreActiveValue: true, restoreFocus: true });
  htmx.process($("#main"));
}
// Parts of a page that have no id are told apart by what has one around them, by their words, and by which of several they are.
function placesOf(root, selector, own = (part) => part.querySelector("summary")?.textContent) {
  const seen = new Map();
  return new Map(all(selector, root).map((part) => {
    const name = [part.closest("[id]")?.id, part.closest("form")?.getAttribute("action"), own(part)].join(" ");
    seen.set(name, (seen.get(name) || 0) + 1);
    return [`${name} ${seen.get(name)}`, part];
  }));
}
function fieldsOf(root) {
  return placesOf(root, "input:not([type=hidden]), textarea, select", (field) => field.name);
}
// What somebody typed or chose, into the field that takes the place of theirs.
function carry(from, to) {
  if (from.matches("select")) for (const each of to.options) each.toggleAttribute("selected", each.value === from.value);
  else if (from.matches("textarea")) to.textContent = from.value;
  else to.setAttribute("value", from.value);
}

function heard(message) {
  if (message.state) { lamp.dataset.state = message.state; lamp.lastElementChild.textContent = message.text; return; }
  if (!concerns(message)) { if (busy) meanwhile.push(message); return; }
  if (held && message.topic !== null) { const bar = $(".news"); if (bar) bar.hidden = false; return; }
  const wait = message.topic === null ? 0 : asked + 1000 * topics.get(message.topic).apart - performance.now();
  if (wait <= 0) refresh();
  else if (!due) due = setTimeout(() => { due = 0; refresh(); }, wait);
}
// Whoever looks at a page of the inbox says so again and again, as long as it is seen.
if (lamp.dataset.again) setInterval(refresh, 1000 * lamp.dataset.again);
document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) refresh(); });

const wire = new BroadcastChannel("twinraven");
let leads = false;
let state = { state: "off", text: "connecting" };
// When this browser was told of each change, by its own clock; without topic, when it began to listen or anything may
// have changed. Of what was told long ago only the topic is kept.
const told = new Map();
const MOST_TOLD = 500;
function note({ topic, about }) {
  const name = JSON.stringify([topic, about]);
  told.delete(name);
  told.set(name, Date.now());
  if (told.size <= MOST_TOLD) return;
  for (const [old, at] of [...told].slice(0, MOST_TOLD / 2)) {
    const whole = JSON.stringify([JSON.parse(old)[0], null]);
    told.delete(old);
    told.set(whole, Math.max(at, told.get(whole) || 0));
  }
}
function tell(message) {
  if (message.state) state = message;
  else note(message);
  heard(message);
  wire.postMessage(message);
}
wire.onmessage = (event) => {
  if (event.data.hello) { if (leads) wire.postMessage({ ...state, told: [...told] }); return; }
  heard(event.data);
  if (event.data.told && !caughtUp) catchUp(event.data.told);
};
// What changed between the moment a page was asked for and the moment it began to listen, nobody told it.
let caughtUp = false;
const ANYTHING = { topic: null, about: null };
function catchUp(before) {
  caughtUp = true;
  const since = performance.timeOrigin;
  const changes = before.map(([name, at]) => { const [topic, about] = JSON.parse(name); return { topic, about, at }; });
  if (!changes.some((each) => each.topic === null && each.at < since)) heard(ANYTHING);
  else for (const each of changes) if (each.at >= since) heard(each);
}
navigator.locks.request("twinraven-news", () => new Promise(() => {
  leads = caughtUp = true;
  // The server tells what changed since the page was made, and nothing where nothing did.
  const source = new EventSource(`/console/news?since=${encodeURIComponent(lamp.dataset.begun)}`);
  source.onopen = () => { if (!told.size) note(ANYTHING); tell({ state: "on", text: "live" }); };
  source.onerror = () => tell({ state: "lost", text: "reconnecting" });
  source.addEventListener("change", (event) => tell(JSON.parse(event.data)));
}));
wire.postMessage({ hello: true });
