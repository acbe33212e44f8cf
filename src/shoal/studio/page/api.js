// The server of this page: every request carries the token, which lives in this tab alone.

const KEPT = "shoal-token";

// The token comes in the fragment of the address, which no browser sends anywhere; then it leaves the address bar.
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    sessionStorage.setItem(KEPT, token);
    history.replaceState(null, "", "/#data");
  }
  return sessionStorage.getItem(KEPT);
}

// What went wrong, and what to do about it, as the server said it.
export class Problem extends Error {
  constructor(status, body) {
    super(body.message || "The server did not answer.");
    this.status = status;
    this.code = body.code || "";
    this.remedy = body.remedy || "";
    this.faults = body.faults || [];
  }
}

export async function ask(method, path, body) {
  const headers = { "x-shoal-token": sessionStorage.getItem(KEPT) || "" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`/api${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem(0, { code: "gone", message: "The server does not answer.", remedy: "It may have been closed. Start `shoal studio` again and open the new address." });
  }
  if (answer.status === 204) return null;
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, content);
  return content;
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);

// Follow a run by server-sent events, read by hand: an EventSource cannot send our header.
// Ends when the run has ended; after a break it asks again. `stop` is an AbortSignal.
export async function follow(run, changed, stop) {
  let last = null;
  while (!stop.aborted) {
    try {
      const headers = { "x-shoal-token": sessionStorage.getItem(KEPT) || "" };
      const answer = await fetch(`/api/runs/${run}/events`, { headers, signal: stop });
      if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        let end;
        while ((end = text.indexOf("\n\n")) >= 0) {
          const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("");
          text = text.slice(end + 2);
          if (data) changed((last = JSON.parse(data)));
        }
      }
    } catch (error) {
      if (stop.aborted) return last;
      if (error instanceof Problem && error.status) throw error;
    }
    if (last && !["running", "waiting"].includes(last.status)) return last;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  return last;
}

// Open a file behind a ticket in a tab of its own; the tab is opened first, while the click still counts.
export async function openTicket(path, body) {
  const tab = window.open("about:blank", "_blank");
  try {
    const { address } = await post(path, body);
    if (tab) { tab.opener = null; tab.location = address; } else location.assign(address);
  } catch (error) {
    if (tab) tab.close();
    throw error;
  }
}

export async function save(path, body, name = "address") {
  const ticket = await post(path, body);
  const link = document.createElement("a");
  link.href = ticket[name];
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}
