// Dialogs: one at a time, over the page, closed by Esc; and the small ones that only ask or tell.

import { button, make, unique } from "./dom.js";
import { codeBlock } from "./prose.js";

/** A dialog that is shown at once and leaves nothing behind; `closed` resolves to what `close` was given. */
export function dialog(title, ...children) {
  let answer = null;
  const heading = make("h2", { id: `dialog-${unique()}` }, title);
  const element = make("dialog", { "aria-labelledby": heading.id }, heading, ...children);
  const closed = new Promise((resolve) => {
    element.addEventListener("close", () => {
      element.remove();
      resolve(answer);
    });
  });
  document.body.append(element);
  element.showModal();
  return {
    element,
    closed,
    close(value = null) {
      answer = value;
      element.close();
    },
  };
}

/** Ask yes or no. */
export async function confirm(title, text, yes) {
  const shown = dialog(title, make("p", {}, text));
  shown.element.append(
    make(
      "div",
      { class: "buttons" },
      button({ label: "Cancel" }, () => shown.close(false)),
      button({ label: yes, class: "primary" }, () => shown.close(true)),
    ),
  );
  return Boolean(await shown.closed);
}

/** Ask for a key until there is one: without it there is nothing to show. */
export async function askForKey(keys, why) {
  const field = make("input", {
    type: "password",
    id: "key",
    name: "key",
    autocomplete: "current-password",
    required: true,
  });
  const keep = make("input", { type: "checkbox", id: "keep" });
  const form = make(
    "form",
    { method: "dialog" },
    make("p", {}, why),
    make("label", { htmlFor: "key" }, "Key of this gateway"),
    field,
    make("label", { class: "check" }, keep, "Keep it in this browser"),
    make("p", { class: "hint" }, "Its operator makes one with ", make("code", {}, "belljar keys add NAME"), "."),
    make("div", { class: "buttons" }, make("button", { type: "submit", class: "primary" }, "Use this key")),
  );
  const shown = dialog("This gateway asks for a key", form);
  shown.element.addEventListener("cancel", (event) => event.preventDefault());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keys.set(field.value.trim(), { keep: keep.checked });
    shown.close();
  });
  await shown.closed;
}

/** How to call this gateway from a program. */
export function showApi(base, model, keyed, forget) {
  const address = new URL("v1", base).href;
  const named = JSON.stringify(model || "belljar");
  const header = keyed ? "\n  -H 'Authorization: Bearer YOUR_KEY' \\" : "";
  const curl = `curl -s "${address}/responses" \\
  -H 'Content-Type: application/json' \\${header}
  -d '{
    "model": ${named},
    "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
    "include": ["code_interpreter_call.outputs"],
    "input": "print(6 * 7)"
  }'`;
  const python = `from openai import OpenAI

client = OpenAI(base_url="${address}", api_key="${keyed ? "YOUR_KEY" : "none"}")
response = client.responses.create(
    model=${named},
    tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
    input="import math; [math.factorial(n) for n in range(8)]",
)
print(response.output_text)`;
  const shown = dialog(
    "Use it from a program",
    make("p", {}, "Any client of OpenAI’s Responses API works once it has this address:"),
    codeBlock(address),
    make("h3", {}, "Python"),
    make("div", { id: "python" }, codeBlock(python, "python")),
    make("h3", {}, "Shell"),
    make("div", { id: "curl" }, codeBlock(curl)),
  );
  shown.element.append(
    make(
      "div",
      { class: "buttons" },
      keyed ? button({ label: "Forget the key" }, () => (shown.close(), forget())) : null,
      button({ label: "Close", class: "primary" }, () => shown.close()),
    ),
  );
}
