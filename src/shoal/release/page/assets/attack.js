// What adversaries reached: curves over people, boxes over epsilon, lines over hours.

const NAMES = { freq_roi: "how often people are where", roi_day: "where people are at each time of day", roi_day_week: "where people are at each time of the week", time_day: "at which times of day people are seen", time_day_week: "at which times of the week people are seen", last_hour: "where people were an hour before", last_day: "where people were a day before", last_week: "where people were a week before" };

// One colour per inference, the same everywhere.
const COLOURS = { prior: "#000000", aggregates: "#7a7a7a", bayes: "#0072b2", max_roi: "#d55e00", max_user: "#009e73" };
const colourOf = (name) => COLOURS[name.split(" ")[0]] || LINE_COLOURS[3];
const dashOf = (name) => (name.endsWith(" pop") ? "dash" : name.startsWith("prior") ? "dot" : "solid");

function start(report) {
  curves(report);
  gains(report);
  hours(report);
}

function chartIn(folder, title, id) {
  const box = element("div", "");
  box.append(element("h3", title));
  const chart = element("div", "", "chart tall");
  chart.id = id;
  box.append(chart);
  folder.append(box);
}

function curves(report) {
  const folder = document.getElementById("curves"), later = [];
  folder.className = "halves";
  for (const prior of [...new Set(report.curves.map((curve) => curve.prior))]) {
    for (const goal of ["profiling", "localization"]) {
      const of = report.curves.filter((curve) => curve.prior === prior && curve.goal === goal);
      if (!of.length) continue;
      const id = `curve-${prior}-${goal}`;
      chartIn(folder, `${goal === "profiling" ? "Profiling" : "Localization"}, knowing ${NAMES[prior] || prior}`, id);
      const traces = of.map((curve) => ({
        x: curve.error, y: report.level, name: `${curve.name} (mean ${curve.mean.toFixed(2)})`, mode: "lines",
        line: { color: colourOf(curve.name), width: 2, dash: dashOf(curve.name) },
        hovertemplate: `${plotText(curve.name)}: %{y:.0%} of people at most %{x:.2f}<extra></extra>`,
      }));
      later.push(() => plot(id, traces, layout("Error of the adversary", "Share of people", { hovermode: "closest", showlegend: true, xaxis: { range: [0, 1] }, yaxis: { range: [0, 1], tickformat: ".0%" } })));
    }
  }
  for (const draw of later) draw();  // once all boxes are there, their widths no longer change
}

function gains(report) {
  if (!report.boxes.length) { document.getElementById("gains").hidden = true; return; }
  const label = (box) => (box.epsilon === null ? box.defence : `${box.defence} ${box.epsilon}`);
  const colours = new Map([...new Set(report.boxes.map((box) => box.defence))].map((name, i) => [name, LINE_COLOURS[i % LINE_COLOURS.length]]));
  const boxes = report.boxes.map((box) => ({
    type: "box", x: [label(box)], lowerfence: [box.quartiles[0]], q1: [box.quartiles[1]], median: [box.quartiles[2]],
    q3: [box.quartiles[3]], upperfence: [box.quartiles[4]], mean: [box.mean], line: { color: colours.get(box.defence) }, hoverinfo: "y", yhoverformat: ".2f",
  }));
  plot("box-gain", boxes, layout("Defence and what it was set at", "Privacy gain", { hovermode: "closest", yaxis: { range: [0, 1] }, xaxis: { type: "category" } }));
  const known = report.boxes.filter((box) => box.mre > 0), errors = known.map((box) => box.mre);
  const ends = [Math.min(...errors) / 1.6, Math.max(...errors) * 1.6];  // space for the names beside the first and the last
  plot("gain-mre", [{
    x: errors, y: known.map((box) => box.mean), text: known.map((box) => plotText(label(box))), mode: "markers+text", textposition: "top center",
    marker: { size: 9, color: known.map((box) => colours.get(box.defence)) }, hovertemplate: "%{text}: error %{x:.2f}, gain %{y:.2f}<extra></extra>",
  }], layout("Mean relative error of the counts", "Mean privacy gain", { hovermode: "closest", xaxis: { type: "log", range: ends.map(Math.log10), rangemode: "normal", ...logTicks(...ends, (value) => value.toLocaleString("en")) }, yaxis: { range: [0, 1] } }));
}

function hours(report) {
  const folder = document.getElementById("hours");
  for (const prior of [...new Set(report.curves.map((curve) => curve.prior))]) {
    const of = report.curves.filter((curve) => curve.prior === prior && curve.goal === "profiling" && curve.bySlot);
    if (!of.length) continue;
    const id = `hours-${prior}`;
    chartIn(folder, `Knowing ${NAMES[prior] || prior}`, id);
    const traces = of.map((curve) => lineTrace(report, curve.name, curve.bySlot, { color: colourOf(curve.name), width: 1.6, dash: dashOf(curve.name) }, "circle", ".2f"));
    plot(id, traces, layout("", "Error", { showlegend: true, xaxis: slotAxis(report, report.slotLabels.length), yaxis: { range: [0, 1] } }));
  }
}

try { start(readJson()); } catch (error) { showFailure(error); }
