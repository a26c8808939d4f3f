(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const theme = localStorage.getItem("ludolf-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    const width = Number(localStorage.getItem("ludolf-side"));
    if (width >= 200 && width <= 640) root.style.setProperty("--side", `${width}px`);
  } catch {
    // A browser may refuse storage; the page then follows the system.
  }
})();
