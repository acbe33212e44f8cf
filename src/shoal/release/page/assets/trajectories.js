// What a trajectory release cost, by hour, by day and against tau, and what attackers get.

const HOURS_OF_DAY = [...Array(24).keys()];
const PAPER = "rgba(120,130,140,0.18)";

function start(report) {
  byHour(report.byHour);
  suppressed(report);
  drawPicture(report.picture);
  drawMaps(report.maps);
  leakage(report.leakage);
  knowledge(report.knowledge, report.k);
  unicity(report.unicity);
  runs(report.runs);
}

const hourAxis = { tickvals: [0, 3, 6, 9, 12, 15, 18, 21], range: [-0.5, 23.5], zeroline: false };
const hourText = (hour) => `${String(hour).padStart(2, "0")}:00`;

function byHour(figures) {
  const line = (name, values, style, unit) => ({
    x: HOURS_OF_DAY, y: values, name, mode: "lines+markers", line: style, marker: { size: 5 }, connectgaps: false,
    hovertemplate: `${name} %{y:.1f} ${unit}<extra></extra>`,
  });
  for (const [id, word, unit, title] of [["hour-space", "Space", "km", "Width + height, km"], ["hour-time", "Time", "min", "Length, minutes"]]) {
    const traces = [
      line("Mean", figures[`mean${word}`], { color: RAW.color, width: 1.8, dash: "dot" }, unit),
      line("Median", figures[`median${word}`], RELEASED, unit),
    ];
    plot(id, traces, layout("Hour of day", title, { showlegend: true, xaxis: hourAxis }));
  }
}

function suppressed(report) {
  const bars = (id, x, figures, xTitle, axis) => plot(id, [{
    type: "bar", x, y: figures.suppressed, customdata: figures.samples, marker: { color: LINE_COLOURS[0] },
    hovertemplate: "%{y:.2%} of %{customdata:,} samples<extra></extra>",
  }], layout(xTitle, "Share suppressed", { xaxis: axis, yaxis: { tickformat: tickPercent(figures.suppressed) } }));
  const days = report.byDay.days, fitting = document.getElementById("day-suppressed").clientWidth / 80, every = Math.ceil(days.length / Math.max(1, fitting));
  const shown = days.map((_, i) => i).filter((i) => i % every === 0);
  bars("day-suppressed", days.map((_, i) => i), report.byDay, "Day", { tickvals: shown, ticktext: shown.map((i) => days[i]), zeroline: false });
  bars("hour-suppressed", HOURS_OF_DAY, report.byHour, "Hour of day", hourAxis);
}

const tickPercent = (values) => (Math.max(0, ...values.filter((v) => v !== null)) < 0.04 ? ".1%" : ".0%");

// Shares as bars that lie, one trace per [name, title, colour], rows from the top; nothing to show, no box.
function shareBars(id, rows, words, series, rowTitle, shareTitle) {
  const known = (value) => value !== null && value !== undefined;
  const shown = series.filter(([name]) => rows.some((row) => known(row[name])));
  if (!shown.length) { document.getElementById(`box-${id}`).hidden = true; return; }
  const highest = Math.max(...rows.flatMap((row) => shown.map(([name]) => row[name] || 0)), 0.01);
  const traces = shown.map(([name, title, colour]) => ({
    type: "bar", orientation: "h", y: rows.map(words), x: rows.map((row) => row[name]), name: title, marker: { color: colour },
    text: rows.map((row) => (known(row[name]) ? `${Number((100 * row[name]).toPrecision(2))} %` : "")),
    textposition: "outside", cliponaxis: false, textfont: { size: 11 }, constraintext: "none", hovertemplate: `${title}: %{x:.2%}<extra></extra>`,
  }));
  plot(id, traces, layout(shareTitle, rowTitle, {
    showlegend: shown.length > 1, barmode: "group", bargap: 0.25, hovermode: "closest", margin: { l: 58, r: 34, t: 10, b: 44 }, legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.01, yanchor: "bottom" },
    xaxis: { tickformat: tickPercent([highest]), range: [0, highest * 1.08], rangemode: "tozero", nticks: 5 }, yaxis: { type: "category", autorange: "reversed" },
  }));
}

function leakage(rows) {
  const sides = [["before", "Before", LINE_COLOURS[4]], ["after", "After", LINE_COLOURS[0]]];
  const counted = rows.some((row) => row.before !== null || row.after !== null);
  shareBars("leakage", rows, (row) => plotText(row.label), counted ? sides : [["share", "Covered", LINE_COLOURS[0]]], "Time from the known period", "Share of samples");
}

function knowledge(rows, k) {
  const twoLines = (row) => plotText(row.knows).replace(/ (of|without) /, "<br>$1 ");
  const series = [["fewer", `Fewer than ${k} fit`, LINE_COLOURS[5]], ["one", "Only one fits", LINE_COLOURS[1]]];
  shareBars("knowledge", rows, twoLines, k === 2 ? series.slice(1) : series, "", k === 2 ? "Share of periods that only one fits" : "Share of periods");
}

function unicity(rows) {
  shareBars("unicity", rows, (row) => String(row.points), [["raw", "Raw pseudonyms", RAW.color], ["released", "This release", RELEASED.color]], "Points known", "Share of people");
}

// One colour per line of runs; quartiles as a band, the published range in grey.
function runs(lines) {
  if (!lines.length) { document.getElementById("runs").hidden = true; return; }
  const taus = lines.flatMap((line) => line.tau);
  const ticks = [10, 20, 30, 60, 120, 240, 480, 960, 1440].filter((tau) => tau >= Math.min(...taus) && tau <= Math.max(...taus));
  const [low, high] = [Math.log10(Math.min(...taus)) - 0.08, Math.log10(Math.max(...taus)) + 0.08];
  const xaxis = { type: "log", range: [low, high], tickvals: ticks, ticktext: ticks.map(String) };
  const charts = [
    ["runs-space", "space_m", "Width + height, km", 1000, [1, 3], ".2f", " km"],
    ["runs-time", "time_min", "Length, minutes", 1, [0, 45], ".0f", " min"],
    ["runs-suppressed", null, "Share of samples", 1, [0.01, 0.07], ".2%", ""],
  ];
  for (const [id, figure, title, unit, paper, format, word] of charts) {
    const traces = lines.flatMap((line, i) => runTraces(line, figure, unit, LINE_COLOURS[i % LINE_COLOURS.length], format, word));
    const band = { type: "rect", xref: "paper", x0: 0, x1: 1, y0: paper[0], y1: paper[1], fillcolor: PAPER, line: { width: 0 }, layer: "below" };
    const named = lines.length > 1;
    plot(id, traces, layout("Tau, minutes", title, { shapes: [band], showlegend: named, xaxis, yaxis: figure ? {} : { tickformat: ".1%" } }));
  }
}

function runTraces(line, figure, unit, colour, format, word) {
  const of = (name) => (line[name] || []).map((value) => (value === null ? null : value / unit));
  const traces = [];
  if (figure) {
    const low = of(`q1_${figure}`), high = of(`q3_${figure}`);
    const at = line.tau.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
    if (at.length > 1) traces.push({
      x: [...at.map((i) => line.tau[i]), ...at.map((i) => line.tau[i]).reverse()], y: [...at.map((i) => high[i]), ...at.map((i) => low[i]).reverse()],
      fill: "toself", fillcolor: `${colour}2a`, line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false,
    });
  }
  traces.push({
    x: line.tau, y: figure ? of(`median_${figure}`) : of("suppressed"), name: plotText(line.name || "Release"), mode: "lines+markers", line: { color: colour, width: 2 },
    hovertemplate: `${plotText(line.name)} %{y:${format}}${word}<extra></extra>`,
  });
  return traces;
}
