// Maps of cells, side by side: each on one scale of colours, and their difference.

const SEQUENTIAL = ["#f0f4f8", "#b9dbe0", "#74b9c7", "#3a8fb0", "#226694", "#173b6c", "#0d1b45"];
const DIVERGING = ["#b35806", "#f1a340", "#fee0b6", "#f7f7f7", "#d8daeb", "#998ec3", "#542788"];
// Colours follow the root of the number: cells with few trips remain distinguishable.
const WARPED = SEQUENTIAL.map((colour, i) => [(i / (SEQUENTIAL.length - 1)) ** 2, colour]);
const EVENLY = DIVERGING.map((colour, i) => [i / (DIVERGING.length - 1), colour]);

const middles = (count, size, from = 0) => [...Array(count).keys()].map((i) => from + (i + 0.5) * size);

// One map: `cells` has the middles of columns and rows in km, `z` the numbers [rows][columns].
function cellMap(id, cells, z, isDifference, end, words) {
  plot(id, [{
    type: "heatmap", x: cells.x, y: cells.y, z, colorscale: isDifference ? EVENLY : WARPED, zmin: isDifference ? -end : 0, zmax: end,
    hovertemplate: `%{x:.2f} km east, %{y:.2f} km north: %{z:,.1f} ${words.unit}<extra></extra>`,
    colorbar: { orientation: "h", thickness: 10, len: 1, y: -0.14, yanchor: "top", nticks: 5, title: { text: words.title, side: "bottom", font: { size: 12 } } },
  }], layout("", "", {
    hovermode: "closest", margin: { l: 40, r: 8, t: 6, b: 78 }, xaxis: { ticksuffix: " km", zeroline: false, constrain: "domain", nticks: 5 },
    yaxis: { ticksuffix: " km", rangemode: "normal", zeroline: false, scaleanchor: "x", constrain: "domain", nticks: 6 },
  }));
}

// words: of a cell's number; right and left: names of the values and of their charts, left may be absent.
function cellMaps(map, words, right, left) {
  const cells = { x: middles(map.columns, map.widthKm), y: middles(map.rows, map.heightKm) };
  const table = (value) => cells.y.map((_, j) => cells.x.map((_, i) => value(j * map.columns + i)));
  const shown = float32s(map[right]);
  cellMap(`map-${right}`, cells, table((i) => shown[i]), false, map.end, words);
  if (!map[left]) return;
  const other = float32s(map[left]);
  cellMap(`map-${left}`, cells, table((i) => other[i]), false, map.end, words);
  cellMap("map-difference", cells, table((i) => shown[i] - other[i]), true, map.differenceEnd, words);
}
