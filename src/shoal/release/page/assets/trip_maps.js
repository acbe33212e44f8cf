// Maps of cells, side by side: each on one scale of colours, and their difference.

const SEQUENTIAL = ["#f0f4f8", "#b9dbe0", "#74b9c7", "#3a8fb0", "#226694", "#173b6c", "#0d1b45"];
const DIVERGING = ["#b35806", "#f1a340", "#fee0b6", "#f7f7f7", "#d8daeb", "#998ec3", "#542788"];

// words: of a cell's number; left and right: ids of the charts and values, left may be null.
function cellMaps(map, words, right, left, difference) {
  const x = [...Array(map.columns).keys()].map((i) => (i + 0.5) * map.widthKm);
  const y = [...Array(map.rows).keys()].map((j) => (j + 0.5) * map.heightKm);
  const table = (value) => y.map((_, j) => x.map((_, i) => value(j * map.columns + i)));
  // Colours follow the root of the number: half-empty cells can still be told apart.
  const warped = SEQUENTIAL.map((colour, i) => [(i / (SEQUENTIAL.length - 1)) ** 2, colour]);
  const evenly = DIVERGING.map((colour, i) => [i / (DIVERGING.length - 1), colour]);
  const heat = (value, colorscale, zmin, zmax) => [{
    type: "heatmap", x, y, z: table(value), colorscale, zmin, zmax, hovertemplate: `%{x:.2f} km east, %{y:.2f} km north: %{z:,.1f} ${words.unit}<extra></extra>`,
    colorbar: { orientation: "h", thickness: 10, len: 1, y: -0.14, yanchor: "top", nticks: 5, title: { text: words.title, side: "bottom", font: { size: 12 } } },
  }];
  const ground = layout("", "", { hovermode: "closest", margin: { l: 40, r: 8, t: 6, b: 78 }, xaxis: { ticksuffix: " km", zeroline: false, constrain: "domain", nticks: 5 }, yaxis: { ticksuffix: " km", rangemode: "normal", zeroline: false, scaleanchor: "x", constrain: "domain", nticks: 6 } });
  const shown = float32s(right.values);
  plot(right.id, heat((i) => shown[i], warped, 0, map.end), ground);
  if (!left) return;
  const other = float32s(left.values);
  plot(left.id, heat((i) => other[i], warped, 0, map.end), ground);
  plot(difference, heat((i) => shown[i] - other[i], evenly, -map.differenceEnd, map.differenceEnd), ground);
}
