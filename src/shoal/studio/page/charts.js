// Charts by plotly, which is loaded when the first one is drawn: the page itself opens without it.

import { BAND, CONFIG, LINE_COLOURS, RAW, RELEASED, layout, plotText, slotAxis } from "./report/plot.js";

export { BAND, LINE_COLOURS, RAW, RELEASED, layout, plotText, slotAxis };

let loading = null;

function library() {
  loading ||= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/page/plotly.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("The charts could not be loaded."));
    document.head.append(script);
  });
  return loading;
}

export async function chart(node, traces, shape) {
  const plotly = await library();
  if (node.isConnected) await plotly.react(node, traces, shape, CONFIG);
  return plotly;
}

// A week of slots against people: raw, released, and the interval.
export function seriesTraces(look, zone, raw) {
  const row = (values) => Array.from(values.subarray(zone * look.slots, (zone + 1) * look.slots));
  const x = look.slotLabels;
  const traces = [
    { x, y: row(look.low), mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false },
    { x, y: row(look.high), mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: BAND, hoverinfo: "skip", name: "95 % interval" },
    { x, y: row(look.released), mode: "lines", line: RELEASED, name: "Released", hovertemplate: "Released %{y:,.1f}<extra></extra>" },
  ];
  if (raw) traces.push({ x, y: row(raw), mode: "lines", line: RAW, name: "Raw (owner only)", hovertemplate: "Raw %{y:,.1f}<extra></extra>" });
  return traces;
}
