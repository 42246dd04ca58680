// A cell: the code as the model writes it, what it prints as it prints it, its pictures, and how it ended.

import { button, make } from "./dom.js";
import { coloured } from "./highlight.js";
import { copier } from "./prose.js";
import { Screen } from "./screen.js";
import { seconds } from "./words.js";

const ENDS = { ok: "Finished", raised: "Raised an error", timed_out: "Ran out of time", killed: "Was stopped" };

/** What can be done about each limit from here, as the gateway told us: what a cell's end says is for who calls the API. */
export const REMEDIES = {};

export class Cell {
  #painter;
  #code = "";
  #written = make("code");
  #state = make("span", { class: "state" });
  #screen;
  #notes = make("div", { class: "notes" });
  #pictures = make("div", { class: "pictures" });
  #began = null;
  #timer = null;

  constructor(painter) {
    this.#painter = painter;
    this.#screen = new Screen(painter);
    const pre = make("pre", { class: "python", tabIndex: 0, ariaLabel: "Code" }, this.#written);
    this.#screen.element.hidden = true;
    this.element = make(
      "section",
      { class: "cell", ariaLabel: "Code that was run", data: { state: "writing" } },
      make(
        "details",
        { open: true },
        make("summary", {}, make("span", { class: "kind" }, "Python"), this.#state),
        make(
          "div",
          { class: "code" },
          pre,
          copier(() => this.#code),
        ),
      ),
      this.#screen.element,
      this.#notes,
      this.#pictures,
    );
    this.#say("writing", "Writing code …");
  }

  write(delta) {
    this.#code += delta;
    this.#painter.soon(this.#draw);
  }

  run() {
    this.#began = performance.now();
    const tick = () => {
      if (!this.element.isConnected) clearInterval(this.#timer);
      this.#say("running", `Running … ${seconds((performance.now() - this.#began) / 1000)}`);
    };
    this.#say("running", "Running …");
    this.#timer ??= setInterval(tick, 500);
  }

  print(delta, stream) {
    this.#screen.element.hidden = false;
    this.#screen.write(delta, stream);
  }

  /** As the item says it is now: after a stream, or out of the store. */
  settle(item) {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#code = item.code ?? this.#code;
    this.#draw();
    const logs = (item.outputs ?? []).filter((one) => one.type === "logs").map((one) => one.logs);
    this.#settleOutput(logs.join(""));
    const images = (item.outputs ?? []).filter((one) => one.type === "image");
    this.#pictures.replaceChildren(...images.map((one, number) => picture(one.url, number + 1)));
    this.#settleState(item);
  }

  #settleOutput(logs) {
    if (!logs) return;
    const live = this.#screen.text;
    if (!logs.startsWith(live)) {
      const fresh = new Screen(this.#painter);
      this.#screen.element.replaceWith(fresh.element);
      this.#screen = fresh;
      fresh.write(logs);
    } else if (logs.length > live.length) this.#screen.write(logs.slice(live.length), "result");
    this.#screen.element.hidden = false;
  }

  #settleState(item) {
    const end = item.belljar;
    const said = [];
    if (item.status === "incomplete" || item.status === "in_progress" || item.status === "interpreting") {
      this.#say("stopped", "Stopped");
    } else if (!end) {
      this.#say(item.status === "failed" ? "failed" : "ok", item.status === "failed" ? "Failed" : "Finished");
    } else {
      const took = end.seconds ? ` after ${seconds(end.seconds)}` : "";
      const ok = end.exit === "ok";
      this.#say(ok ? "ok" : "failed", ok && took ? `Finished in ${seconds(end.seconds)}` : `${ENDS[end.exit]}${took}`);
      const fact = end.remedy && end.text.endsWith(end.remedy) ? end.text.slice(0, -end.remedy.length) : end.text;
      const words = [!ok && end.exit !== "raised" && fact, REMEDIES[end.limit]];
      if (words.some(Boolean)) said.push(words.filter(Boolean).map((one) => one.trim()).join(" "));
      if (end.healed) said.push("The sandbox had ended: its files are back, its variables are not.");
      if (end.repaired) said.push(`Mended to run: the model ${end.repaired}.`);
    }
    this.#notes.replaceChildren(...said.map((text) => make("p", {}, text)));
  }

  #say(state, text) {
    this.element.dataset.state = state;
    this.#state.textContent = text;
  }

  #draw = () => {
    this.#written.replaceChildren(...coloured(this.#code));
  };
}

function picture(url, number) {
  const image = make("img", { src: url, alt: `Figure ${number}` });
  const open = button(
    { label: `Show figure ${number} in full size`, class: "figure", words: false, icon: "up" },
    () => {
      figure.classList.toggle("whole");
    },
  );
  open.replaceChildren(image);
  const figure = make("figure", {}, open);
  return figure;
}
