// The space-time picture of one record, and maps by hour of day. The last script of the page: it starts it.

const BOX_FILL = "rgba(0,99,166,0.16)";

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
  const cells = { x: middles(maps.columns, maps.sideKm, maps.westKm), y: middles(maps.rows, maps.sideKm, maps.southKm) };
  // [rows][columns] of one hour; a cell without anyone stays white.
  const table = (hour, value) => cells.y.map((_, j) => cells.x.map((_, i) => value(hour * size + i * maps.rows + j)));
  const some = (value) => (Math.abs(value) < maps.end / 500 ? null : value);
  const words = { unit: "people", title: "People" };
  const slider = document.getElementById("map-hour");
  const draw = () => {
    const hour = Number(slider.value);
    document.getElementById("map-hour-label").textContent = `${hourText(hour)} to ${hourText((hour + 1) % 24)}`;
    cellMap("map-raw", cells, table(hour, (i) => some(raw[i])), false, maps.end, words);
    cellMap("map-released", cells, table(hour, (i) => some(released[i])), false, maps.end, words);
    cellMap("map-difference", cells, table(hour, (i) => some(released[i] - raw[i])), true, maps.differenceEnd, words);
  };
  slider.addEventListener("input", draw);
  draw();
}

try { start(readJson()); } catch (error) { showFailure(error); }
