// Reading the payload, and numbers as a reader writes them.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

// The payload is little-endian, as is every machine a browser runs on today.
const float32s = (base64) => new Float32Array(bytesOf(base64));
const uint16s = (base64) => new Uint16Array(bytesOf(base64));

const readJson = () => JSON.parse(document.getElementById("payload").textContent);

function readPayload() {
  const report = readJson();
  for (const name of Object.keys(report.values)) report.values[name] = float32s(report.values[name]);
  report.zones.xy = uint16s(report.zones.xy);
  return report;
}

// People: one decimal below 100 where there is one, whole numbers above.
function people(value) {
  if (value === null || Number.isNaN(value)) return "not defined";
  const decimals = Math.abs(value) < 100 && Math.round(value) !== value ? 1 : 0;
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

const signedPeople = (value) => (value > 0 ? "+" : "") + people(value);

function percent(share) {
  if (share === null || Number.isNaN(share)) return "not defined";
  const value = 100 * share;
  const decimals = Math.abs(value) >= 100 ? 0 : 1;
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }) + " %";
}

const correlation = (value) => (value === null ? "not defined" : value.toFixed(3));

// A zone by its name, and its number where the name alone does not say it.
function zoneLabel(zones, zone) {
  const name = zones.names[zone], id = zones.ids[zone];
  return name && name !== id ? `${name} (${id})` : id;
}

// An element with text inside: text, never HTML, whatever a zone is called.
function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

// Round values from 0 to end, at most `most` of them: 1, 2 or 5 times a power of ten apart.
function roundSteps(end, most) {
  const rough = end / most;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const steps = [];
  for (let value = 0; value <= end * 1.0001; value += step) steps.push(value);
  return steps;
}

function showFailure(error) {
  const node = document.getElementById("failure");
  node.hidden = false;
  node.textContent = `The pictures could not be drawn (${error.message}). The tables below still hold. A browser of the last five years is needed.`;
  console.error(error);
}
