// Checks a page and writes the results to attributes that `--dump-dom` prints: `data-wide`, true if the page is wider than the window;
// `data-keys`, `ok` or the elements that the keyboard cannot reach, or that do not show their focus.
{
    const root = document.documentElement;
    root.dataset.wide = root.scrollWidth > root.clientWidth + 1;
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    const pressed = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex], [role=button], [onclick]";
    const there = [...document.querySelectorAll(pressed)].filter((e) => e.getClientRects().length > 0 && !e.disabled);
    const reached = there.filter((e) => {
        e.focus();
        return e.tabIndex >= 0 && document.activeElement === e;
    });
    // A headless browser may render the page before its window has the focus, and then shows no focus.
    const unseen = reached.filter((e) => {
        const hadFocus = document.hasFocus();
        e.focus();
        const style = getComputedStyle(e);
        return style.outlineStyle === "none" && style.boxShadow === "none" && hadFocus && document.hasFocus();
    });
    // The parts of a figure are links too; the table below has the same links.
    const leads = (e) => e.getAttribute("href");
    const led = new Set(reached.map(leads));
    const missed = there.filter((e) => !reached.includes(e) && !(leads(e) && led.has(leads(e))));
    const named = (what, elements) => elements.map((e) => what + e.outerHTML.slice(0, 100));
    const wrong = [...named("not reached: ", missed), ...named("not shown: ", unseen)];
    root.dataset.keys = wrong.length === 0 ? "ok" : wrong.join("; ");
}
