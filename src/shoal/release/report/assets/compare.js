// Methods compared: one line per method in each chart, the same colour everywhere.

const EPSILON = "Epsilon the method was set at (smaller: more noise)";
const CHARTS = [
  ["mre", "Mean relative error (%)", { tickformat: ",.0%" }, ",.1%"],
  ["pc", "Pearson correlation", { rangemode: "normal" }, ".3f"],
  ["emd_m", "EMD (metres)", {}, ",.0f"],
  ["bias", "Bias of the total (%)", { rangemode: "normal", tickformat: "+,.1~%", zeroline: true }, "+,.2%"],
];
const DASHES = ["solid", "dash", "dashdot", "longdash"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"];
const LOG_FROM = 25;  // a log chart where the worst is this many times the best

const logNumber = (value) => value.toLocaleString("en");
const logPercent = (value) => `${(100 * value).toLocaleString("en", { maximumSignificantDigits: 3 })}%`;

// More methods than colours: the colours come again with other marks.
function styleOf(line, i) {
  const round = Math.floor(i / LINE_COLOURS.length);
  return {
    line: { color: LINE_COLOURS[i % LINE_COLOURS.length], width: 2, dash: line.sound ? DASHES[0] : "dot" },
    symbol: SYMBOLS[(i + round) % SYMBOLS.length] + (line.sound ? "" : "-open"),
  };
}

function start(compared) {
  const styles = new Map(compared.lines.map((line, i) => [line.method, styleOf(line, i)]));
  legend(compared, styles);
  for (const chart of CHARTS) epsilonChart(compared, styles, chart);
  slotCharts(compared, styles);
  boxCharts(compared, styles);
}

function epsilonChart(compared, styles, [key, yTitle, yaxis, format]) {
  const lines = compared.lines.filter((line) => line[key].mean.some((value) => value !== null));
  if (!lines.length) { emptyChart(`by-${key}`, "Not computed."); return; }
  const epsilons = [...new Set(lines.flatMap((line) => line.epsilon))].sort((a, b) => a - b);
  const values = lines.flatMap((line) => line[key].mean).filter((value) => value !== null);
  const log = ["mre", "emd_m"].includes(key) && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > LOG_FROM;
  const traces = lines.map((line) => epsilonTrace(line, key, styles.get(line.method), format));
  const pad = epsilons.length > 1 ? 0.06 * Math.log10(epsilons.at(-1) / epsilons[0]) : 0.3;
  plot(`by-${key}`, traces, layout(EPSILON, log ? `${yTitle}, log scale` : yTitle, {
    hovermode: "closest",
    xaxis: { type: "log", tickvals: epsilons, ticktext: epsilons.map(String), range: [Math.log10(epsilons[0]) - pad, Math.log10(epsilons.at(-1)) + pad] },
    yaxis: { ...yaxis, ...(log ? { type: "log", rangemode: "normal", ...logTicks(Math.min(...values), Math.max(...values), key === "mre" ? logPercent : logNumber) } : {}) },
  }));
}

function epsilonTrace(line, key, style, format) {
  const { mean, least, most } = line[key];
  const repeated = mean.some((value, i) => value !== null && most[i] > least[i]);
  const bars = { type: "data", symmetric: false, array: mean.map((v, i) => most[i] - v), arrayminus: mean.map((v, i) => v - least[i]), thickness: 1.2, width: 4, color: style.line.color };
  return {
    x: line.epsilon, y: mean, mode: "lines+markers", name: plotText(line.method), line: style.line, connectgaps: false,
    marker: { size: 8, symbol: style.symbol }, error_y: repeated ? bars : undefined,
    hovertemplate: `${plotText(line.method)}<br>epsilon %{x}: %{y:${format}}<extra></extra>`,
  };
}

// One legend for all charts, in the page rather than in each chart; a click hides or shows a method everywhere.
function legend(compared, styles) {
  const box = document.getElementById("legend");
  for (const line of compared.lines) {
    const button = element("button", undefined, "method"), swatch = element("i"), style = styles.get(line.method);
    swatch.style.borderTop = `3px ${line.sound ? "solid" : "dotted"} ${style.line.color}`;
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(swatch, element("span", line.method + (line.sound ? "" : " (comparison only)")));
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      toggle(plotText(line.method), shown);
    });
    box.append(button);
  }
}

function toggle(name, shown) {
  for (const node of document.querySelectorAll(".chart")) {
    if (!node.data) continue;
    const which = node.data.map((trace, i) => (trace.name === name ? i : -1)).filter((i) => i >= 0);
    if (which.length) Plotly.restyle(node, { visible: shown }, which);
  }
}

function slotCharts(compared, styles) {
  const slots = compared.slots;
  if (!slots) { document.getElementById("over-time").hidden = true; return; }
  document.getElementById("slots-epsilon").textContent = `Epsilon ${slots.epsilon}, one run.`;
  document.getElementById("zone-title").textContent = slots.zone ? `People in ${slots.zone}` : "People in one zone";
  const traces = (pairs, format) => pairs.map(([name, values]) => {
    const style = styles.get(name) || { line: RELEASED, symbol: "circle" };
    return lineTrace(slots, plotText(name), values, { ...style.line, width: 1.6 }, style.symbol, format);
  });
  const raw = slots.zoneExact ? [lineTrace(slots, "Raw", slots.zoneExact, { color: "#000000", width: 2.4 }, "diamond-open", ",.1f")] : [];
  const axis = slotAxis(slots, slots.slotLabels.length);
  const draw = (id, lines, yTitle, yaxis) => (lines.length
    ? plot(id, lines, layout("Start of slot, local time", yTitle, { xaxis: axis, yaxis, showlegend: id === "zone-series", margin: { l: 58, r: 14, t: 28, b: 44 } }))
    : (document.getElementById(id).parentElement.hidden = true));
  draw("zone-series", [...raw, ...traces(slots.zonePeople, ",.1f")], `People per ${slots.slotWord}`, {});
  draw("slot-mre", traces(slots.mre, ",.1%"), "Error (% of raw count)", { tickformat: ",.0%" });
  draw("slot-emd", traces(slots.emd_m, ",.0f"), "EMD (metres)", {});
}

function boxCharts(compared, styles) {
  const boxes = compared.boxes;
  if (!boxes.length) { document.getElementById("over-zones").hidden = true; return; }
  const texts = boxes.map((box) => `${plotText(box.method)}<br>ε ${box.epsilon}`);
  for (const [key, yTitle, format, ends] of [
    ["mre", "Relative error of a zone (%)", ",.0%", { minallowed: 0 }],
    ["pc", "Correlation of a zone", ".2f", { minallowed: -1.02, maxallowed: 1.02 }],
  ]) {
    const traces = boxes.flatMap((box, i) => {
      if (!box[key].count) return [];
      const colour = (styles.get(box.method) || { line: RELEASED }).line.color;
      return boxTraces(box[key], format, i, colour, "rgba(255,255,255,0)").map((trace) => ({ ...trace, name: plotText(box.method) }));
    });
    if (!traces.length) { emptyChart(`box-${key}`, "Not defined for any zone."); continue; }
    plot(`box-${key}`, traces, layout("Method and epsilon", yTitle, {
      hovermode: "closest", xaxis: { tickvals: boxes.map((_, i) => i), ticktext: texts, range: [-0.6, boxes.length - 0.4], showgrid: false, zeroline: false },
      yaxis: { tickformat: format, rangemode: "normal", ...ends },
    }));
  }
}

try { start(readJson()); } catch (error) { showFailure(error); }
