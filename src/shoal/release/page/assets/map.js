// The map of zones, on a plain 2D canvas.
// Not MapLibre: the zones need no tiles, no panning and no WebGL, which a locked-down office or a remote
// desktop may lack; filling a thousand ready paths takes a few milliseconds, so the slider stays smooth.

const COLOUR_STEPS = 256;
const PEOPLE_TICKS = 6;
const DIFFERENCE_TICKS = 4;
const ERROR_TICKS = 5;
const UNDEFINED_COLOUR = "#b8bfc7";
const CANVAS_FONT = "12px 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif";

// 256 colours between the given stops.
function colourTable(stops) {
  const parts = stops.map((stop) => {
    if (stop[0] === "#") return [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16));
    return stop.match(/\d+/g).map(Number);
  });
  return Array.from({ length: COLOUR_STEPS }, (_, i) => {
    const at = (i / (COLOUR_STEPS - 1)) * (parts.length - 1);
    const low = Math.min(Math.floor(at), parts.length - 2);
    const mix = parts[low].map((from, k) => Math.round(from + (parts[low + 1][k] - from) * (at - low)));
    return `rgb(${mix.join(",")})`;
  });
}

// A scale gives a place from 0 to 1 to a value. Counts are heavy-tailed: a square root shows small ones too.
// Differences are linear, so that small ones stay pale.
function colourScales(colours) {
  // Ends are rounded up, so that the legend's last number is the end of the scale.
  const roundEnd = (end, most) => { const step = roundSteps(end, most)[1]; return Math.ceil(end / step - 1e-9) * step; };
  const peopleEnd = roundEnd(colours.people.end, PEOPLE_TICKS);
  const differenceEnd = roundEnd(colours.difference.end, DIFFERENCE_TICKS);
  const share = (value, end) => Math.min(Math.max(value / end, 0), 1);
  const peopleScale = {
    table: colourTable(colours.people.stops), end: peopleEnd, most: colours.people.most, signed: false,
    place: (value) => Math.sqrt(share(value, peopleEnd)),
  };
  const differenceScale = {
    table: colourTable(colours.difference.stops), end: differenceEnd, most: colours.difference.most, signed: true,
    place: (value) => share(value + differenceEnd, 2 * differenceEnd),
  };
  // Errors are linear, and pale where they are small. Correlations have a fixed scale, the same in every
  // report, not one stretched to the zones at hand; below 0 is as bad as none.
  const mreEnd = roundEnd(colours.mre.end, ERROR_TICKS);
  const mreScale = {
    table: colourTable(colours.mre.stops), end: mreEnd, most: colours.mre.most, signed: false, words: percent,
    place: (value) => share(value, mreEnd),
  };
  const pearsonScale = {
    table: colourTable(colours.pearson.stops), end: 1, most: 1, signed: false, below: true, words: (value) => value.toFixed(1),
    place: (value) => share(value, 1),
  };
  for (const scale of [peopleScale, differenceScale, mreScale, pearsonScale])
    scale.colour = (value) => (value === null ? UNDEFINED_COLOUR : scale.table[Math.round(scale.place(value) * (COLOUR_STEPS - 1))]);
  return { released: peopleScale, exact: peopleScale, difference: differenceScale, mre: mreScale, pearson: pearsonScale };
}

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

class ZoneMap {
  constructor(canvas, zones) {
    this.canvas = canvas;
    this.zones = zones;
    this.chosen = -1;
    this.hovered = -1;
    this.colourOf = () => "#cccccc";
    this.resize();
  }

  resize() {
    const { context, width, height } = fitCanvas(this.canvas);
    Object.assign(this, { context, width, height });
    const margin = 12;
    this.scale = Math.min((width - 2 * margin) / this.zones.width, (height - 2 * margin) / this.zones.height);
    this.left = (width - this.zones.width * this.scale) / 2;
    this.top = (height - this.zones.height * this.scale) / 2;
    this.buildPaths();
  }

  buildPaths() {
    const { xy, rings } = this.zones;
    let point = 0;
    this.paths = rings.map((lengths) => {
      const path = new Path2D();
      for (const length of lengths) {
        for (let i = 0; i < length; i++, point++) {
          const x = this.left + xy[2 * point] * this.scale, y = this.top + xy[2 * point + 1] * this.scale;
          if (i === 0) path.moveTo(x, y); else path.lineTo(x, y);
        }
        path.closePath();
      }
      return path;
    });
  }

  draw() {
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.lineJoin = "round";
    const border = this.paths.length > 300 ? 0.5 : 1;
    this.paths.forEach((path, zone) => {
      context.fillStyle = this.colourOf(zone);
      context.fill(path, "evenodd");
      context.lineWidth = border;
      context.strokeStyle = "rgba(255,255,255,0.55)";
      context.stroke(path);
    });
    this.outline(this.hovered, "#ffffff", 3, "#000000", 1.2);
    this.outline(this.chosen, "#ffffff", 5, "#d00070", 2.6);
    this.drawScaleBar();
  }

  outline(zone, outer, outerWidth, inner, innerWidth) {
    if (zone < 0) return;
    for (const [colour, width] of [[outer, outerWidth], [inner, innerWidth]]) {
      this.context.strokeStyle = colour;
      this.context.lineWidth = width;
      this.context.stroke(this.paths[zone]);
    }
  }

  drawScaleBar() {
    if (this.paths.every((_, zone) => !this.zones.rings[zone].length)) return;
    drawScaleBar(this.context, this.zones.stepsPerKm * this.scale, this.width, this.height);
  }

  // The zone under a point of the page, or -1. Later zones are drawn on top, so they are asked first.
  zoneAt(x, y) {
    const ratio = window.devicePixelRatio || 1;
    for (let zone = this.paths.length - 1; zone >= 0; zone--)
      if (this.context.isPointInPath(this.paths[zone], x * ratio, y * ratio, "evenodd")) return zone;
    return -1;
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
  const positive = roundSteps(scale.end, scale.signed ? DIFFERENCE_TICKS : scale.words ? ERROR_TICKS : PEOPLE_TICKS);
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
