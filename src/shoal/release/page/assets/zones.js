// Figures by zone: raw against released totals, and maps of relative error and correlation.

// Totals span decades, so both axes are logarithmic; a total of 0 has no place there and is counted below.
function totalsChart(report, pick) {
  const { exactTotal, releasedTotal } = report.byZone;
  const shown = exactTotal.map((_, zone) => zone).filter((zone) => exactTotal[zone] > 0 && releasedTotal[zone] > 0);
  const hidden = exactTotal.length - shown.length;
  document.getElementById("totals-note").textContent =
    hidden ? `${hidden.toLocaleString("en")} zones with a total of 0 are not drawn.` : "";
  if (!shown.length) { emptyChart("totals", "No zone has both a raw and a released total above 0."); return false; }
  const x = shown.map((zone) => exactTotal[zone]), y = shown.map((zone) => releasedTotal[zone]);
  const both = [...x, ...y], ends = [Math.min(...both) / 1.3, Math.max(...both) * 1.3];
  const range = ends.map(Math.log10);
  const axis = { type: "log", range, rangemode: "normal", ...logTicks(...ends, (value) => value.toLocaleString("en")) };
  plot("totals", [
    { x: ends, y: ends, mode: "lines", line: { color: "#59636e", width: 1.2, dash: "dot" }, name: "Equal", hoverinfo: "skip" },
    { x, y, mode: "markers", customdata: shown, name: "Zones", marker: { color: RELEASED.color, size: 5, opacity: 0.5 },
      hovertemplate: "Raw %{x:,.0f}<br>Released %{y:,.0f}<extra></extra>" },
    { x: [], y: [], mode: "markers", name: "Chosen zone", hoverinfo: "skip", marker: { color: "#d00070", size: 10, symbol: "circle-open", line: { width: 2.5 } } },
  ], layout("Raw visits in the window", "Released visits in the window", { hovermode: "closest", xaxis: axis, yaxis: axis }));
  document.getElementById("totals").on("plotly_click", (event) => {
    const zone = event.points[0].customdata;
    if (zone !== undefined) pick(zone);
  });
  return true;
}

function markTotal(report, zone) {
  const { exactTotal, releasedTotal } = report.byZone;
  const drawn = exactTotal[zone] > 0 && releasedTotal[zone] > 0;
  Plotly.restyle("totals", { x: [drawn ? [exactTotal[zone]] : []], y: [drawn ? [releasedTotal[zone]] : []] }, [2]);
}

// Key, what the tooltip calls it, and how it is written.
const ERROR_MAPS = [["mre", "Relative error", percent], ["pearson", "Correlation", correlation]];

// Two maps that do not move with the slot; they are drawn again only when a zone is picked or the page resized.
function errorMaps(report, scales, pick) {
  return ERROR_MAPS.map(([key, name, words]) => {
    const values = report.byZone[key], legend = document.getElementById(`legend-${key}`);
    const map = new ZoneMap(document.getElementById(`map-${key}`), report.zones);
    map.colourOf = (zone) => scales[key].at(values[zone]);
    const linesOf = (zone) => [
      element("b", zoneLabel(report.zones, zone)),
      element("div", `${name} ${words(values[zone])}`),
      element("div", `Raw mean ${people(report.byZone.exactMean[zone])} people`),
    ];
    wirePointer(map, document.getElementById(`tooltip-${key}`), () => map.draw(), pick, linesOf);
    new ResizeObserver(() => { map.resize(); drawLegend(legend, scales[key]); }).observe(map.canvas.parentElement);
    return map;
  });
}
