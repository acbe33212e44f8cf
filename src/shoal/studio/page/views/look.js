// Look: the contents of a release as a picture; for its owner beside the exact values.

import { get, openTicket, post, save } from "../api.js";
import { go } from "../app.js";
import { button, el, ownerOnly, say, select, text, verdict, when } from "../dom.js";

export async function open(root, { what }) {
  const releases = await get("/releases");
  root.replaceChildren(text("h1", "Look"));
  if (!releases.length) {
    root.append(el("div", { class: "panel soft" }, text("p", "There is no release in this folder yet. Plan one and publish it.", "empty"), el("p", { class: "empty" }, button("To the plan view", () => go("plan"), { class: "main" }))));
    return null;
  }
  const chosen = releases.find((each) => each.id === what) || releases[0];
  const details = await get(`/releases/${chosen.id}`);
  const pick = select(releases.map((each) => [each.id, `${each.name} (${each.kind}, ${when(each.at)})`]), chosen.id, { "aria-label": "Release", onchange: (event) => go("look", event.target.value) });
  const picture = el("div");
  root.append(
    el("div", { class: "row" }, el("div", { class: "grow" }, pick), actions(chosen, details)),
    el("p", { class: "sentence" }, `${details.manifest.unit} ${details.manifest.promise}`, details.manifest.guarantee.epsilon ? "" : el("strong", {}, " This is not differential privacy: it does not compose with other releases, and it protects against this adversary only.")),
    verdict(details.manifest.verdict),
    picture);
  if (!chosen.drawn) { picture.append(el("div", { class: "panel soft" }, text("p", "Releases of this kind have no picture. The folder contains the files.", "empty"))); return null; }
  const { draw } = await import(`../kinds/${chosen.kind}.js`);
  return draw(picture, chosen, details);
}

function actions(chosen, details) {
  const at = `/releases/${chosen.id}`;
  const publish = async () => { const { folder } = await post(`${at}/publish`, { name: chosen.name }); say(`A checked copy lies in ${folder}. Give this copy to recipients.`); };
  const verify = async () => {
    const check = await post(`${at}/verify`);
    say(check.ok ? "The check of a recipient passed: every hash and the guarantee hold." : `The release does not match its manifest: ${check.problems.join("; ")}`, check.ok ? "good" : "bad");
  };
  return el("div", { class: "row" },
    button("Download", () => save(`${at}/open`, { what: "folder" })),
    button("Check as recipient", verify),
    details.public ? text("span", "published in public/", "tag done") : button("Copy to public/", publish),
    details.report ? el("span", {}, button("Owner's report", () => openTicket(`${at}/open`, { what: "report" })), " ", ownerOnly()) : null,
    !chosen.attacked ? null : button("Attack it", () => go("attack", chosen.id)));
}
