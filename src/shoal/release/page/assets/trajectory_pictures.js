// The space-time picture of one record, and maps by hour of day. The last script of the page: it starts it.

const BOX_FILL = "rgba(0,99,166,0.16)";
const SEQUENTIAL = ["#f0f4f8", "#b9dbe0", "#74b9c7", "#3a8fb0", "#226694", "#173b6c", "#0d1b45"];
const DIVERGING = ["#b35806", "#f1a340", "#fee0b6", "#f7f7f7", "#d8daeb", "#998ec3", "#542788"];

// Rectangles as one trace: closed paths with gaps between them.
function rectangles(rows) {
  const x = [], y = [];
  for (const [left, right, low, high] of rows) {
    x.push(left, right, right, left, left, null);
    y.push(low, low, high, high, low, null);
  }
  return { x, y, mode: "lines", fill: "toself", fillcolor: BOX_FILL, line: { color: RELEASED.color, width: 1 }, name: "Boxes", hoverinfo: "skip" };
}

function drawPicture(picture) {
  if (!picture) { document.getElementById("picture").hidden = true; return; }
  const origin = Date.parse(`${picture.start}Z`);
  const at = (minutes) => new Date(origin + minutes * 60000).toISOString().slice(0, 19);
  const times = picture.t.map(at);
  const points = (x, y, hover) => [true, false].map((retained) => {
    const rows = picture.retained.map((flag, i) => (flag === retained ? i : -1)).filter((i) => i >= 0);
    return {
      x: rows.map((i) => x[i]), y: rows.map((i) => y[i]), mode: "markers", name: retained ? "Samples" : "Suppressed",
      marker: { color: retained ? RAW.color : "#000000", size: retained ? 6 : 7, symbol: retained ? "circle" : "x-thin-open", line: { width: retained ? 0 : 1.6 } },
      text: rows.map((i) => times[i].slice(0, 16).replace("T", " ")), hovertemplate: hover,
    };
  }).filter((trace) => trace.x.length);
  const dates = { type: "date", range: [at(0), at(picture.minutes)], tickformat: "%H:%M\n%a %-d %b", hoverformat: "%a %H:%M" };
  for (const [id, axis, place, title] of [["picture-x", picture.x, 2, "East, km"], ["picture-y", picture.y, 4, "North, km"]]) {
    const boxes = rectangles(picture.boxes.map((box) => [at(box[0]), at(box[1]), box[place], box[place + 1]]));
    plot(id, [boxes, ...points(times, axis, "%{text}: %{y:.1f} km<extra></extra>")],
      layout("", title, { hovermode: "closest", showlegend: true, xaxis: dates, yaxis: { rangemode: "normal" } }));
  }
  const path = { x: picture.x, y: picture.y, mode: "lines", name: "Order", line: { color: RAW.color, width: 1, dash: "dot" }, hoverinfo: "skip" };
  const ground = rectangles(picture.boxes.map((box) => box.slice(2, 6)));
  plot("picture-map", [ground, path, ...points(picture.x, picture.y, "%{text}<extra></extra>")],
    layout("East, km", "North, km", { hovermode: "closest", showlegend: true, xaxis: { zeroline: false }, yaxis: { rangemode: "normal", zeroline: false, scaleanchor: "x" } }));
}

function drawMaps(maps) {
  if (!maps) { document.getElementById("maps").hidden = true; return; }
  const raw = float32s(maps.raw), released = float32s(maps.released);
  const size = maps.columns * maps.rows;
  const x = [...Array(maps.columns).keys()].map((i) => maps.westKm + (i + 0.5) * maps.sideKm);
  const y = [...Array(maps.rows).keys()].map((j) => maps.southKm + (j + 0.5) * maps.sideKm);
  // [rows][columns] of one hour; a cell without anyone stays white.
  const table = (hour, value) => y.map((_, j) => x.map((_, i) => value(hour * size + i * maps.rows + j)));
  const some = (value) => (Math.abs(value) < maps.end / 500 ? null : value);
  // Colours follow the root of the number: half-empty cells can still be told apart.
  const warped = SEQUENTIAL.map((colour, i) => [(i / (SEQUENTIAL.length - 1)) ** 2, colour]);
  const evenly = DIVERGING.map((colour, i) => [i / (DIVERGING.length - 1), colour]);
  const heat = (z, colorscale, zmin, zmax) => [{
    type: "heatmap", x, y, z, colorscale, zmin, zmax, hovertemplate: "%{z:.1f} people<extra></extra>",
    colorbar: { orientation: "h", thickness: 10, len: 1, y: -0.16, yanchor: "top", nticks: 5, title: { text: "People", side: "bottom", font: { size: 12 } } },
  }];
  const ground = layout("", "", { hovermode: "closest", margin: { l: 34, r: 8, t: 6, b: 70 }, xaxis: { ticksuffix: " km", zeroline: false, constrain: "domain", nticks: 5 }, yaxis: { rangemode: "normal", zeroline: false, scaleanchor: "x", constrain: "domain", nticks: 6 } });
  const slider = document.getElementById("map-hour");
  const draw = () => {
    const hour = Number(slider.value);
    document.getElementById("map-hour-label").textContent = `${hourText(hour)} to ${hourText((hour + 1) % 24)}`;
    plot("map-raw", heat(table(hour, (i) => some(raw[i])), warped, 0, maps.end), ground);
    plot("map-released", heat(table(hour, (i) => some(released[i])), warped, 0, maps.end), ground);
    plot("map-difference", heat(table(hour, (i) => some(released[i] - raw[i])), evenly, -maps.differenceEnd, maps.differenceEnd), ground);
  };
  slider.addEventListener("input", draw);
  draw();
}

try { start(readJson()); } catch (error) { showFailure(error); }
