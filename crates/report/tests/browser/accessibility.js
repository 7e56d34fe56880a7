// Added to a page by its test, after axe-core: checks every tab with everything unfolded, and writes errors, or `ok`.
(async () => {
  const found = [];
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs.length ? tabs : [null]) {
    tab?.click();
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    for (const v of violations) found.push(`${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(", ")}`);
  }
  document.documentElement.dataset.axe = found.length ? found.slice(0, 12).join(" | ") : "ok";
})().catch((e) => { document.documentElement.dataset.axe = `failed: ${e}`; });
