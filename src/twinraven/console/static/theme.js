// Before the first paint, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* private windows keep nothing */ }
