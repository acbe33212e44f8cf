// Run: the progress and outcome of runs. A run continues when this page is closed.

import { follow, get, openTicket, post } from "../api.js";
import { go } from "../app.js";
import { button, complain, el, ownerOnly, say, text, verdict, when } from "../dom.js";

const STATES = { waiting: "waits for another run", running: "running", done: "done", failed: "failed", stopped: "cancelled", interrupted: "interrupted" };

export async function open(root, { what }) {
  const runs = await get("/runs"), stop = new AbortController();
  const detail = el("div"), list = el("ul", { class: "list" });
  root.replaceChildren(text("h1", "Run"),
    text("p", "Runs continue when this page is closed and stop when the server stops. Budget that a run has reserved stays spent, even if the run fails.", "lead"),
    el("div", { class: "side" }, el("section", { class: "panel" }, text("h2", "Runs"), runs.length ? list : text("p", "There are no runs yet.", "empty")), detail));
  const chosen = runs.find((run) => run.id === what) || runs[0];
  for (const run of runs) {
    list.append(el("li", {}, el("button", { class: "pick", type: "button", "aria-pressed": String(run === chosen), onclick: () => go("run", run.id) },
      el("strong", {}, run.title), " ", el("span", { class: `tag ${run.status}` }, STATES[run.status]), el("div", { class: "note" }, when(run.asked_at)))));
  }
  if (!chosen) { detail.append(el("div", { class: "panel soft" }, text("p", "There are no runs yet. Plan a release and publish it; its run is shown here.", "empty"))); return () => stop.abort(); }
  const panel = el("section", { class: "panel" });
  detail.append(panel);
  showRun(panel, chosen);
  if (["running", "waiting"].includes(chosen.status)) {
    follow(chosen.id, (run) => showRun(panel, run), stop.signal).then((run) => { if (run && !stop.signal.aborted) ended(run); }).catch(complain);
  }
  return () => stop.abort();
}

function ended(run) {
  if (run.status === "done") say(`${run.title}: done.`);
  window.dispatchEvent(new HashChangeEvent("hashchange"));  // the list beside shows it, too
}

// A run inside another view: its progress, and its error if it fails.
export async function runInPlace(node, run, signal) {
  const panel = el("div");
  node.replaceChildren(panel);
  showRun(panel, run, true);
  const last = await follow(run.id, (now) => showRun(panel, now, true), signal);
  if (last && last.status === "done") node.replaceChildren();
  return last;
}

export function showRun(panel, run, small = false) {
  const live = ["running", "waiting"].includes(run.status);
  const parts = [];
  if (!small) parts.push(el("div", { class: "row apart" }, text("h2", run.title), el("span", { class: `tag ${run.status}` }, STATES[run.status])), text("p", `Asked for ${when(run.asked_at)}${run.ended_at ? `, ended ${when(run.ended_at)}` : ""}.`, "note"));
  parts.push(stages(run, live));
  if (run.error) parts.push(el("div", { class: "notice bad", role: "alert" }, el("strong", {}, run.error.message), ` ${run.error.remedy}`));
  if (run.status === "interrupted") parts.push(el("div", { class: "notice bad" }, "The server was stopped while this ran, so the run was stopped too."));
  if (run.aftermath && (run.job === "release" || run.status === "interrupted")) parts.push(el("div", { class: run.aftermath.spent ? "notice bad" : "notice" }, run.aftermath.words));
  if (live) parts.push(el("div", { class: "row" }, button(run.cancelling ? "Stopping …" : "Cancel", () => cancel(run), { class: "danger", disabled: run.cancelling }),
    run.job === "release" ? text("span", "Cancelling costs nothing before the budget is reserved. Afterwards the reserved budget stays spent.", "note") : null));
  if (!small && run.job === "release" && run.status === "done") parts.push(published(run));
  if (!small && run.job === "attack" && run.status === "done") parts.push(el("p", { class: "sentence" }, ownerOnly(), " ", run.result.sentence));
  if (!small && run.job === "simulate" && run.status === "done") parts.push(button("Plan a release of it", () => go("plan", run.result.source), { class: "main" }));
  if (!small && run.error && run.error.code === "nobody-counted") parts.push(button("Publish anyway", () => again(run, true)));
  if (!small && ["failed", "stopped", "interrupted"].includes(run.status) && run.job === "release") parts.push(" ", button("Run it again", () => again(run, false)));
  if (!small) parts.push(log(run));
  panel.replaceChildren(...parts);
}

const cancel = async (run) => { await post(`/runs/${run.id}/cancel`); say("The run was asked to stop."); };

async function again(run, allow_empty) {
  const started = await post("/runs", { plan: run.about.form, allow_empty, again: true });
  go("run", started.id);
}

function stages(run, live) {
  const list = el("ol", { class: "stages" });
  run.stages.forEach((stage, i) => {
    const now = live && i === run.stages.length - 1;
    const share = stage.total ? Math.min(1, stage.done / stage.total) : null;
    const bar = now && share === null ? el("div", { class: "bar wait" }, el("i")) : el("div", { class: "bar" }, el("i", { class: "go", style: `width:${now ? (100 * share).toFixed(1) : run.status === "done" || i < run.stages.length - 1 ? 100 : 100 * (share || 0)}%` }));
    list.append(el("li", {}, text("span", stage.stage), bar, text("span", now && share !== null ? `${Math.round(100 * share)} %` : now ? "working" : "")));
  });
  if (!run.stages.length && live) list.append(el("li", {}, text("span", run.status === "waiting" ? "waits" : "starting"), el("div", { class: "bar wait" }, el("i")), el("span")));
  return list;
}

function published(run) {
  const release = run.result.manifest_sha256;
  return el("div", {},
    el("div", { class: "notice good" }, run.result.reused ? "This release was made before. The stored release is returned and nothing is spent." : `Released. ${run.result.spends ? "The spend is in the ledger." : "The ledger lists the release; nothing was spent."} The folder for recipients is `, el("code", {}, run.result.release)),
    verdict(run.result.verdict),
    run.result.source_changed ? el("div", { class: "notice" }, "The files changed since this release was made. The stored release is returned unchanged. A new run id makes a release of the new files and spends budget. Only you see this note.") : null,
    el("div", { class: "row" },
      button("Look at it", () => go("look", release), { class: "main" }),
      button("Open the owner's report", () => openTicket(`/releases/${release}/open`, { what: "report" })), ownerOnly(),
      button("Attack it", () => go("attack", release)),
      button("See the ledger", () => go("ledger", release))));
}

function log(run) {
  const lines = [`${run.asked_at.slice(0, 19).replace("T", " ")}  asked for`];
  for (const stage of run.stages) lines.push(`${stage.at.slice(0, 19).replace("T", " ")}  ${stage.stage}`);
  if (run.error) lines.push(`${(run.ended_at || "").slice(0, 19).replace("T", " ")}  ${run.error.code}: ${run.error.message}`);
  if (run.ended_at) lines.push(`${run.ended_at.slice(0, 19).replace("T", " ")}  ${STATES[run.status]}`);
  return el("details", {}, el("summary", {}, "Log"), el("pre", { class: "log" }, lines.join("\n")));
}
