// The charts of a density: the series of a zone, the city, errors by time, box plots over zones.

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
    { ...end, y: high, fill: "tonexty", fillcolor: BAND, name: "95 % interval", legendrank: 4, hovertemplate: "95 % to %{y:,.1f}<extra></extra>" },
  ];
  return plot("series", [...band, released, raw], linesLayout(report, slot, count));
}

function cityChart(report, slot) {
  const released = lineTrace(report, "Released", report.city.released, RELEASED, "circle", ",.0f");
  const raw = lineTrace(report, "Raw", report.city.exact, RAW, "diamond-open", ",.0f");
  return plot("city", [released, raw], linesLayout(report, slot, raw.y.length));
}

// Key, title of the axis, its options, number format, and what to say where there is nothing to draw.
const NO_PEOPLE = "Not defined: no zone had people.";
const PROFILES = [
  ["mre", "Error (% of raw count)", { tickformat: ",.0%" }, ",.1%", NO_PEOPLE],
  ["emd", "EMD (metres)", {}, ",.0f", "Not computed."],
  ["bias", "Bias (% of raw total)", { tickformat: "+,.1~%" }, "+,.2%", NO_PEOPLE],
  ["mae", "Error (people)", {}, ",.1f", NO_PEOPLE],
];

function profileCharts(report) {
  for (const [key, yTitle, yaxis, format, nothing] of PROFILES) {
    const whole = report.bySlot, day = report.byHourOfDay;
    const bars = (x, y) => [{ type: "bar", name: "Released", x, y, marker: { color: RELEASED.color }, hovertemplate: `%{y:${format}}<extra></extra>` }];
    if (!whole[key] || whole[key].every((value) => value === null)) {
      for (const part of ["slot", "day"]) emptyChart(`${key}-${part}`, nothing);
      continue;
    }
    plot(`${key}-slot`, bars(report.slotLabels, whole[key]),
      layout("Start of slot, local time", yTitle, {
        yaxis, bargap: whole[key].length < 4 ? 0.8 : 0.15, xaxis: slotAxis(report, whole[key].length),
      }));
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
