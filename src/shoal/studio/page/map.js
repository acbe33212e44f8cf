// The map of zones as pixels: which zone a pixel belongs to is found once per size, so that a frame is one pass over
// typed arrays and one image, whatever the number of zones. No tiles, no WebGL: a locked-down office has neither.

import { colourTable, drawLegend, drawScaleBar, fitCanvas } from "./report/map.js";
import { roundSteps, uint16s } from "./report/format.js";

const NOBODY = 0xffffffff;  // white, as the bytes of a pixel
const MARGIN = 10;
export const PEOPLE = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];  // viridis
export const WORSE = ["#fff7bc", "#fee391", "#fec44f", "#fe9929", "#ec7014", "#cc4c02", "#993404", "#662506"];  // YlOrBr

// 256 colours as bytes of pixels, and the place of a value among them. A square root shows small counts too.
export function scaleOf(stops, end, root = true, most = end) {
  const table = colourTable(stops);
  const pixels = Uint32Array.from(table, (colour) => {
    const [r, g, b] = colour.match(/\d+/g).map(Number);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
  const step = roundSteps(end, 6)[1], last = Math.ceil(end / step - 1e-9) * step;
  const place = (value) => { const share = Math.min(Math.max(value / last, 0), 1); return root ? Math.sqrt(share) : share; };
  return { table, pixels, end: last, most, signed: false, place, at: (value) => pixels[(place(value) * 255 + 0.5) | 0] };
}

export { drawLegend };

// What our own code took of each frame, for `make bench-studio`.
export const frames = { drawn: 0, ownMs: 0 };

export class ZoneMap {
  constructor(canvas, zones) {
    this.canvas = canvas;
    this.zones = { ...zones, xy: zones.xy instanceof Uint16Array ? zones.xy : uint16s(zones.xy) };
    this.colours = new Uint32Array(zones.ids.length).fill(0xffe4dcd4);
    this.chosen = -1;
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

  // Pixels of each zone by the even-odd rule, row by row; `runs` are [zone, first, last) stretches of pixels.
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
    drawScaleBar(context, this.zones.stepsPerKm * this.scale, this.width, this.height);
  }

  draw() {
    const began = performance.now();
    const { pixels, where, whose, colours, context } = this;
    for (let i = 0; i < where.length; i++) pixels[where[i]] = colours[whose[i]];
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(this.image, 0, 0);
    context.drawImage(this.borders, 0, 0);
    if (this.chosen >= 0 && this.outlines[this.chosen]) {
      for (const [colour, wide] of [["#ffffff", 5], ["#d00070", 2.6]]) {
        context.strokeStyle = colour;
        context.lineWidth = wide * this.ratio;
        context.stroke(this.outlines[this.chosen]);
      }
    }
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.over) this.over(context, this);
    frames.drawn += 1;
    frames.ownMs += performance.now() - began;
  }

  zoneAt(x, y) {
    const column = Math.floor(x * this.ratio), row = Math.floor(y * this.ratio);
    if (column < 0 || row < 0 || column >= this.canvas.width || row >= this.canvas.height) return -1;
    return this.owner[row * this.canvas.width + column];
  }
}

// A plane of the map's own coordinates (degrees or metres), north up, equal scales in both directions.
export class Plane {
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
