// The map of zones as pixels: which zone a pixel belongs to is found once per size, so that a frame is one pass over
// typed arrays and one image, whatever the number of zones. No tiles, no WebGL: a locked-down office has neither.
// Shared by the reports and the local page.

const COLOUR_STEPS = 256;
const PEOPLE_TICKS = 6;
const DIFFERENCE_TICKS = 4;
const ERROR_TICKS = 5;
const MARGIN = 12;
const NOBODY = 0xffffffff;  // white, as the bytes of a pixel
const UNDEFINED_PIXEL = 0xffc7bfb8;
const CANVAS_FONT = "12px 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif";

// Scales that can be read without red-green vision: viridis, YlOrBr without its palest colour, and PuOr.
const PEOPLE = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const WORSE = ["#fff7bc", "#fee391", "#fec44f", "#fe9929", "#ec7014", "#cc4c02", "#993404", "#662506"];
const DIFFERENCES = ["#2d004b", "#542788", "#8073ac", "#b2abd2", "#d8daeb", "#f7f7f7", "#fee0b6", "#fdb863", "#e08214", "#b35806", "#7f3b08"];

// 256 colours between the given stops.
function colourTable(stops) {
  const parts = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: COLOUR_STEPS }, (_, i) => {
    const at = (i / (COLOUR_STEPS - 1)) * (parts.length - 1);
    const low = Math.min(Math.floor(at), parts.length - 2);
    const mix = parts[low].map((from, k) => Math.round(from + (parts[low + 1][k] - from) * (at - low)));
    return `rgb(${mix.join(",")})`;
  });
}

// A scale gives each value a place from 0 to 1 and a colour, as the bytes of a pixel. Counts are heavy-tailed: a square
// root shows small ones too. Differences and errors are linear, so that small ones stay pale.
function scaleOf(stops, end, { most = end, root = false, signed = false, below = false, words = null, ticks = PEOPLE_TICKS } = {}) {
  const table = colourTable(stops);
  const pixels = Uint32Array.from(table, (colour) => {
    const [r, g, b] = colour.match(/\d+/g).map(Number);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
  // The end is rounded up, so that the legend's last number is the end of the scale.
  const step = roundSteps(end, ticks)[1], last = Math.ceil(end / step - 1e-9) * step;
  const share = (value) => Math.min(Math.max(signed ? (value + last) / (2 * last) : value / last, 0), 1);
  const place = (value) => (root ? Math.sqrt(share(value)) : share(value));
  const at = (value) => (value === null ? UNDEFINED_PIXEL : pixels[(place(value) * (COLOUR_STEPS - 1) + 0.5) | 0]);
  return { table, end: last, most, signed, below, words, ticks, place, at };
}

const peopleScale = (end, most) => scaleOf(PEOPLE, end, { most, root: true });

// A canvas as sharp as the screen; returns its drawing context and its size in page pixels.
function fitCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

// What our own code took of each frame, for `make bench-studio`.
const frames = { drawn: 0, ownMs: 0 };

class ZoneMap {
  constructor(canvas, zones) {
    this.canvas = canvas;
    this.zones = { ...zones, xy: zones.xy instanceof Uint16Array ? zones.xy : uint16s(zones.xy) };
    this.colours = new Uint32Array(zones.ids.length);
    this.colourOf = () => 0xffe4dcd4;
    this.chosen = this.hovered = -1;
    this.over = null;  // draws on top, in pixels of the page
    this.resize();
  }

  resize() {
    const { context, width, height } = fitCanvas(this.canvas);
    Object.assign(this, { context, width, height });
    this.ratio = this.canvas.width / width;
    this.scale = Math.min((width - 2 * MARGIN) / this.zones.width, (height - 2 * MARGIN) / this.zones.height);
    this.left = (width - this.zones.width * this.scale) / 2;
    this.top = (height - this.zones.height * this.scale) / 2;
    this.image = new ImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer).fill(NOBODY);
    this.rasterise();
    this.drawBorders();
    this.draw();
  }

  // Pixels of each zone by the even-odd rule, row by row; `runs` are [zone, first, last) intervals of pixels.
  rasterise() {
    const { xy, rings } = this.zones, wide = this.canvas.width, high = this.canvas.height, s = this.scale * this.ratio;
    const left = this.left * this.ratio, top = this.top * this.ratio;
    this.owner = new Int32Array(wide * high).fill(-1);
    this.outlines = [];
    let point = 0;
    rings.forEach((lengths, zone) => {
      const crossings = new Map(), path = new Path2D();
      for (const length of lengths) {
        for (let i = 0; i < length; i++) {
          const a = point + i, b = point + ((i + 1) % length);
          const ax = left + xy[2 * a] * s, ay = top + xy[2 * a + 1] * s, bx = left + xy[2 * b] * s, by = top + xy[2 * b + 1] * s;
          if (i === 0) path.moveTo(ax, ay); else path.lineTo(ax, ay);
          if (ay === by) continue;
          const from = Math.max(0, Math.ceil(Math.min(ay, by) - 0.5)), to = Math.min(high - 1, Math.ceil(Math.max(ay, by) - 0.5) - 1);
          for (let y = from; y <= to; y++) {
            const x = ax + ((y + 0.5 - ay) / (by - ay)) * (bx - ax);
            if (crossings.has(y)) crossings.get(y).push(x); else crossings.set(y, [x]);
          }
        }
        path.closePath();
        point += length;
      }
      this.outlines.push(path);
      for (const [y, xs] of crossings) {
        xs.sort((one, other) => one - other);
        for (let i = 0; i + 1 < xs.length; i += 2) {
          const first = Math.max(0, Math.ceil(xs[i] - 0.5)), last = Math.min(wide, Math.ceil(xs[i + 1] - 0.5));
          this.owner.fill(zone, y * wide + first, y * wide + Math.max(first, last));
        }
      }
    });
    this.inside = this.owner.reduce((count, zone) => count + (zone >= 0), 0);
    const where = new Uint32Array(this.inside), whose = new Uint32Array(this.inside);
    let at = 0;
    for (let i = 0; i < this.owner.length; i++) if (this.owner[i] >= 0) { where[at] = i; whose[at++] = this.owner[i]; }
    this.where = where;
    this.whose = whose;
  }

  // Lines between zones never change: drawn once, laid over every frame.
  drawBorders() {
    const sheet = (this.borders = document.createElement("canvas"));
    sheet.width = this.canvas.width;
    sheet.height = this.canvas.height;
    const context = sheet.getContext("2d");
    context.lineJoin = "round";
    context.lineWidth = (this.outlines.length > 300 ? 0.5 : 1) * this.ratio;
    context.strokeStyle = "rgba(255,255,255,0.6)";
    for (const path of this.outlines) context.stroke(path);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.zones.rings.some((lengths) => lengths.length)) drawScaleBar(context, this.zones.stepsPerKm * this.scale, this.width, this.height);
  }

  draw() {
    const began = performance.now();
    const { pixels, where, whose, colours, context } = this;
    for (let zone = 0; zone < colours.length; zone++) colours[zone] = this.colourOf(zone);
    for (let i = 0; i < where.length; i++) pixels[where[i]] = colours[whose[i]];
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(this.image, 0, 0);
    context.drawImage(this.borders, 0, 0);
    this.outline(this.hovered, ["#ffffff", 3], ["#000000", 1.2]);
    this.outline(this.chosen, ["#ffffff", 5], ["#d00070", 2.6]);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.over) this.over(context, this);
    frames.drawn += 1;
    frames.ownMs += performance.now() - began;
  }

  outline(zone, ...strokes) {
    if (zone < 0 || !this.outlines[zone]) return;
    for (const [colour, wide] of strokes) {
      this.context.strokeStyle = colour;
      this.context.lineWidth = wide * this.ratio;
      this.context.stroke(this.outlines[zone]);
    }
  }

  // The zone under a point of the canvas, or -1.
  zoneAt(x, y) {
    const column = Math.floor(x * this.ratio), row = Math.floor(y * this.ratio);
    if (column < 0 || row < 0 || column >= this.canvas.width || row >= this.canvas.height) return -1;
    return this.owner[row * this.canvas.width + column];
  }
}

// A plane of the map's own coordinates (degrees or metres), north up, equal scales in both directions.
class Plane {
  constructor(canvas, box, planar) {
    this.canvas = canvas;
    this.box = box;
    this.planar = planar;
    this.paint = () => {};
    this.resize();
  }

  resize() {
    const { context, width, height } = fitCanvas(this.canvas);
    Object.assign(this, { context, width, height });
    const [west, south, east, north] = this.box;
    const shrink = this.planar ? 1 : Math.cos(((south + north) / 2) * Math.PI / 180);
    this.perY = Math.min((width - 2 * MARGIN) / Math.max((east - west) * shrink, 1e-12), (height - 2 * MARGIN) / Math.max(north - south, 1e-12));
    this.perX = this.perY * shrink;
    this.left = (width - (east - west) * this.perX) / 2;
    this.top = (height - (north - south) * this.perY) / 2;
    this.draw();
  }

  at(x, y) { return [this.left + (x - this.box[0]) * this.perX, this.top + (this.box[3] - y) * this.perY]; }
  from(px, py) { return [this.box[0] + (px - this.left) / this.perX, this.box[3] - (py - this.top) / this.perY]; }

  draw() {
    this.context.clearRect(0, 0, this.width, this.height);
    const [x0, y0] = this.at(this.box[0], this.box[3]), [x1, y1] = this.at(this.box[2], this.box[1]);
    this.context.fillStyle = "#f6f8fa";
    this.context.fillRect(x0, y0, x1 - x0, y1 - y0);
    this.paint(this.context, this);
    drawScaleBar(this.context, this.planar ? this.perY * 1000 : this.perY / 111.32, this.width, this.height);
  }
}

// A round number of kilometres in the lower right corner.
function drawScaleBar(context, pixelsPerKm, width, height) {
  const km = roundSteps(110 / pixelsPerKm, 2)[1];
  if (!Number.isFinite(km)) return;
  const length = km * pixelsPerKm, x = width - 14 - length, y = height - 12;
  context.fillStyle = "rgba(255,255,255,0.85)";
  context.fillRect(x - 6, y - 20, length + 12, 28);
  context.strokeStyle = context.fillStyle = "#1c2126";
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, y - 4); context.lineTo(x, y + 2); context.lineTo(x + length, y + 2); context.lineTo(x + length, y - 4);
  context.stroke();
  context.font = CANVAS_FONT;
  context.textAlign = "center";
  context.fillText(km >= 1 ? `${km.toLocaleString("en")} km` : `${Math.round(km * 1000)} m`, x + length / 2, y - 6);
}

function drawLegend(canvas, scale) {
  const { context, width } = fitCanvas(canvas);
  const left = 26, right = 30, span = width - left - right, barHeight = 13;
  for (let x = 0; x < span; x++) {
    context.fillStyle = scale.table[Math.round((x / (span - 1)) * (COLOUR_STEPS - 1))];
    context.fillRect(left + x, 0, 1.5, barHeight);
  }
  context.fillStyle = context.strokeStyle = "#1c2126";
  context.font = CANVAS_FONT;
  context.textAlign = "center";
  const words = scale.words || ((value) => value.toLocaleString("en", { maximumSignificantDigits: 4 }));
  const positive = roundSteps(scale.end, scale.ticks);
  const values = scale.signed ? [...positive.slice(1).map((v) => -v).reverse(), ...positive] : positive;
  const lastFrom = width - right - 34;
  let free = -Infinity;
  values.forEach((value, i) => {
    const isLast = i === values.length - 1, isFirst = i === 0 && scale.signed, beyond = scale.most > scale.end;
    const sign = beyond && isLast ? "\u2265 " : (beyond && isFirst) || (i === 0 && scale.below) ? "\u2264 " : "";
    const text = sign + (scale.signed && value > 0 ? "+" : "") + words(value);
    const x = left + scale.place(value) * (span - 1), half = context.measureText(text).width / 2;
    if (x - half < free || (!isLast && x + half > lastFrom)) return;  // labels never touch
    free = x + half + 8;
    context.fillRect(x - 0.5, barHeight, 1, 4);
    context.fillText(text, x, barHeight + 16);
  });
}
