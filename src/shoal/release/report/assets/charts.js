// The charts, drawn by plotly. Names of zones never go in here: plotly reads some HTML in its texts.

const RAW = { color: "#c04f00", width: 1.8, dash: "dot" };
const RELEASED = { color: "#0063a6", width: 2 };
const BAND = "rgba(0,99,166,0.2)";

function layout(xTitle, yTitle, more = {}) {
  const axis = { gridcolor: "#e4e8ec", zerolinecolor: "#9aa4ae", automargin: true, fixedrange: true, ticks: "outside", ticklen: 5, tickcolor: "#9aa4ae" };
  const title = (text) => ({ text, standoff: 5, font: { size: 13 } });
  return {
    margin: { l: 58, r: 14, t: 10, b: 44 },
    font: { family: "'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif", size: 13, color: "#1c2126" },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", hovermode: "x unified", showlegend: false,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left" },
    ...more,
    xaxis: { ...axis, title: title(xTitle), ...(more.xaxis || {}) },
    yaxis: { ...axis, title: title(yTitle), rangemode: "tozero", separatethousands: true, ...(more.yaxis || {}) },
  };
}

// No tool bar: it could send figures to a server, and its other buttons are not needed here.
const CONFIG = { displayModeBar: false, responsive: true, displaylogo: false, doubleClick: false };

const plot = (id, traces, chartLayout) => Plotly.react(document.getElementById(id), traces, chartLayout, CONFIG);

function emptyChart(id, text) {
  document.getElementById(id).replaceChildren(element("p", text, "empty"));
}

// Slots are categories named by their start: an hour that the clock repeats in autumn keeps its own place.
function slotAxis(report, count) {
  return {
    type: "category", range: [-0.5, count - 0.5],
    tickvals: report.dayTicks.slots, ticktext: report.dayTicks.texts,
  };
}

function slotMarker(report, slot) {
  if (report.slots < 2) return [];
  return [{ type: "line", x0: slot, x1: slot, y0: 0, y1: 1, yref: "paper", line: { color: "#d00070", width: 1.5 } }];
}

function moveMarkers(report, slot) {
  for (const id of ["series", "city"]) {
    const node = document.getElementById(id);
    if (node.layout) Plotly.relayout(node, { shapes: slotMarker(report, slot) });
  }
}

function lineTrace(report, name, values, style, symbol, format) {
  return {
    x: report.slotLabels.slice(0, values.length), y: values, name, mode: values.length > 1 ? "lines" : "markers",
    line: style, marker: { size: 11, symbol, color: style.color }, hovertemplate: `${name} %{y:${format}}<extra></extra>`,
  };
}

const linesLayout = (report, slot, count) => layout("Start of slot, local time", `People per ${report.slotWord}`, {
  showlegend: true, margin: { l: 58, r: 14, t: 28, b: 44 },
  shapes: slotMarker(report, slot), xaxis: slotAxis(report, count),
});

function seriesChart(report, zone, slot) {
  const count = report.slots;
  const cut = (name) => Array.from(report.values[name].subarray(zone * count, (zone + 1) * count));
  const low = cut("low"), high = cut("high");
  const released = lineTrace(report, "Released", cut("released"), RELEASED, "circle", ",.1f");
  const raw = lineTrace(report, "Raw", cut("exact"), RAW, "diamond-open", ",.1f");
  if (count === 1) {
    const value = released.y[0];
    released.error_y = { type: "data", symmetric: false, array: [high[0] - value], arrayminus: [value - low[0]], thickness: 2, width: 8 };
    released.name = "Released, with 95 % interval";
    return plot("series", [released, raw], linesLayout(report, slot, count));
  }
  const end = { x: released.x, mode: "lines", line: { width: 0 } };
  const band = [
    { ...end, y: low, showlegend: false, hovertemplate: "95 % from %{y:,.1f}<extra></extra>" },
    { ...end, y: high, fill: "tonexty", fillcolor: BAND, name: "95 % interval", hovertemplate: "95 % to %{y:,.1f}<extra></extra>" },
  ];
  return plot("series", [...band, released, raw], linesLayout(report, slot, count));
}

function cityChart(report, slot) {
  const released = lineTrace(report, "Released", report.city.released, RELEASED, "circle", ",.0f");
  const raw = lineTrace(report, "Raw", report.city.exact, RAW, "diamond-open", ",.0f");
  return plot("city", [released, raw], linesLayout(report, slot, raw.y.length));
}

const PROFILES = [["mre", "Error (% of raw count)", { tickformat: ",.0%" }, ",.1%"], ["mae", "Error (people)", {}, ",.1f"]];

function profileCharts(report) {
  for (const [key, yTitle, yaxis, format] of PROFILES) {
    const whole = report.bySlot, day = report.byHourOfDay;
    const bars = (x, y) => [{ type: "bar", x, y, marker: { color: RELEASED.color }, hovertemplate: `%{y:${format}}<extra></extra>` }];
    if (whole[key].every((value) => value === null)) {
      for (const part of ["slot", "day"]) emptyChart(`${key}-${part}`, "Not defined: no zone had people.");
      continue;
    }
    plot(`${key}-slot`, bars(report.slotLabels, whole[key]),
      layout("Start of slot, local time", yTitle, { yaxis, bargap: whole[key].length < 4 ? 0.8 : 0.15, xaxis: slotAxis(report, whole[key].length) }));
    if (!day || day.hours.length < 2) {
      emptyChart(`${key}-day`, "All slots start at the same hour: there is no profile by hour of the day.");
      continue;
    }
    plot(`${key}-day`, bars(day.hours, day[key]), layout("Hour of the day, local time", yTitle,
      { yaxis, bargap: 0.15, xaxis: { dtick: 4, tick0: 0, range: [-0.6, 23.6], ticksuffix: ":00" } }));
  }
}

// Key, title, number format, and the ends that the figure cannot pass.
const BOXES = [
  ["mre", "Relative error (%)", ",.0%", { minallowed: 0 }],
  ["mae", "Absolute error (people)", ",~r", { minallowed: 0 }],
  ["pearson", "Correlation (Pearson)", ".2f", { minallowed: -1.02, maxallowed: 1.02 }],
  ["bias", "Bias of the zone's total (%)", "+,.0%", {}],
  ["coverage", "Raw values in interval (%)", ".0%", { minallowed: 0, maxallowed: 1.005 }],
];
const MOST_OUTLIERS = 400;

function boxCharts(report) {
  const shown = BOXES.filter(([key]) => report.boxes[key]);
  // All places first: each chart measures its own when it is drawn.
  document.getElementById("boxes").replaceChildren(...shown.map(([key]) => {
    const node = element("div", undefined, "chart");
    node.id = `box-${key}`;
    return node;
  }));
  for (const [key, title, format, ends] of shown) {
    const box = report.boxes[key];
    if (box.count === 0) { emptyChart(`box-${key}`, `${title}: not defined for any zone.`); continue; }
    const zoneCount = `${box.count.toLocaleString("en")} zone${box.count === 1 ? "" : "s"}`;
    plot(`box-${key}`, boxTraces(box, format), layout("", title, {
      hovermode: "closest", margin: { l: 58, r: 6, t: 8, b: 30 },
      xaxis: { tickvals: [0], ticktext: [zoneCount], range: [-0.6, 0.6], showgrid: false, zeroline: false },
      yaxis: { tickformat: format, rangemode: "normal", ...ends },
    }));
  }
}

function boxTraces(box, format) {
  const every = Math.ceil(box.outliers.length / MOST_OUTLIERS) || 1;
  const outliers = box.outliers.filter((_, i) => i % every === 0);
  return [
    { type: "box", x: [0], q1: [box.q1], median: [box.median], q3: [box.q3], mean: [box.mean],
      lowerfence: [box.whisker_low], upperfence: [box.whisker_high],
      fillcolor: BAND, line: { color: RELEASED.color }, hoverinfo: "y", yhoverformat: format },
    { type: "scatter", mode: "markers", x: outliers.map(() => 0), y: outliers,
      marker: { color: RELEASED.color, size: 4, opacity: 0.45 }, hovertemplate: `%{y:${format}}<extra></extra>` },
  ];
}
