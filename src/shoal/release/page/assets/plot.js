// What every chart of a report shares, drawn by plotly. Plotly reads some HTML in its texts: `plotText` first.

const RAW = { color: "#c04f00", width: 1.8, dash: "dot" };
const RELEASED = { color: "#0063a6", width: 2 };
const BAND = "rgba(0,99,166,0.2)";
// Distinguishable without red-green vision (Okabe and Ito), the darkest of them first.
const LINE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#a06a00", "#000000", "#7a7a7a"];

function layout(xTitle, yTitle, more = {}) {
  const axis = { gridcolor: "#e4e8ec", zerolinecolor: "#9aa4ae", automargin: true, fixedrange: true, ticks: "outside", ticklen: 5, tickcolor: "#9aa4ae" };
  const title = (text) => ({ text, standoff: 5, font: { size: 13 } });
  return {
    margin: { l: 58, r: 14, t: 10, b: 44 },
    font: { family: "'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif", size: 13, color: "#1c2126" },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", hovermode: "x unified", showlegend: false,
    legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left" },
    ...more,
    xaxis: { ...axis, title: title(xTitle), ...(more.xaxis || {}) },
    yaxis: { ...axis, title: title(yTitle), rangemode: "tozero", separatethousands: true, ...(more.yaxis || {}) },
  };
}

// No tool bar: it could send figures to a server, and its other buttons are not needed here.
const CONFIG = { displayModeBar: false, responsive: true, displaylogo: false, doubleClick: false };

const plot = (id, traces, chartLayout) => Plotly.react(document.getElementById(id), traces, chartLayout, CONFIG);

const plotText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/%\{/g, "% {");

function emptyChart(id, text) {
  document.getElementById(id).replaceChildren(element("p", text, "empty"));
}

// Slots are categories named by their start: an hour that the clock repeats in autumn keeps its own place.
function slotAxis(report, count) {
  const every = window.innerWidth < 600 ? 2 : 1, some = (list) => list.filter((_, i) => i % every === 0);
  return {
    type: "category", range: [-0.5, count - 0.5],
    tickvals: some(report.dayTicks.slots), ticktext: some(report.dayTicks.texts),
  };
}

// Ticks of a log axis from low to high: 1, 2 and 5 times the powers of ten, or these alone over many decades.
function logTicks(low, high, words) {
  const factors = Math.log10(high / low) > 2.2 ? [1] : [1, 2, 5];
  const tickvals = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const factor of factors) tickvals.push(Number((factor * 10 ** power).toPrecision(3)));
  return { tickvals, ticktext: tickvals.map(words) };
}

// Raw first in a legend, then what was released, whatever is drawn on top.
const LEGEND_RANKS = { Raw: 1, Released: 2 };

function lineTrace(report, name, values, style, symbol, format) {
  return {
    x: report.slotLabels.slice(0, values.length), y: values, name, mode: values.length > 1 ? "lines" : "markers",
    legendrank: LEGEND_RANKS[name] || 3, line: style, marker: { size: 11, symbol, color: style.color }, hovertemplate: `${name} %{y:${format}}<extra></extra>`,
  };
}

const MOST_OUTLIERS = 400;

function boxTraces(box, format, at = 0, colour = RELEASED.color, fill = BAND) {
  const every = Math.ceil(box.outliers.length / MOST_OUTLIERS) || 1;
  const outliers = box.outliers.filter((_, i) => i % every === 0);
  return [
    { type: "box", x: [at], q1: [box.q1], median: [box.median], q3: [box.q3], mean: [box.mean],
      lowerfence: [box.whisker_low], upperfence: [box.whisker_high],
      fillcolor: fill, line: { color: colour }, hoverinfo: "y", yhoverformat: format },
    { type: "scatter", mode: "markers", x: outliers.map(() => at), y: outliers,
      marker: { color: colour, size: 4, opacity: 0.45 }, hovertemplate: `%{y:${format}}<extra></extra>` },
  ];
}
