// The operator's project: browse it and choose files to attach; look at what would be saved in it, and say yes or no.

import { dialog } from "./dialogs.js";
import { button, icon, make } from "./dom.js";
import { count, day, size } from "./words.js";

// -- files in ---------------------------------------------------------------------------------------------------------

/** Choose files of the project; resolves to those chosen, in the order of the choice. */
export async function choose(api, root, limits) {
  const chosen = new Map();
  const crumbs = make("nav", { class: "crumbs", ariaLabel: "Folder" });
  const entries = make("ul", { class: "entries" });
  const said = make("p", { class: "hint", role: "status" });
  const hidden = make("input", { type: "checkbox", id: "hidden", on: { change: () => open(asked.path) } });
  const attach = button({ label: "Attach", class: "primary", disabled: true }, () => shown.close([...chosen.values()]));
  const shown = dialog(
    "Attach files of the project",
    crumbs,
    entries,
    said,
    make(
      "div",
      { class: "buttons" },
      make("label", { class: "check" }, hidden, "Show hidden files"),
      button({ label: "Cancel" }, () => shown.close([])),
      attach,
    ),
  );
  let at = "";
  let asked = null;

  const tell = () => {
    const files = [...chosen.values()];
    const bytes = files.reduce((sum, one) => sum + one.size, 0);
    attach.disabled = !files.length;
    attach.querySelector("span").textContent = files.length ? `Attach ${count(files.length, "file")}` : "Attach";
    const large = files.filter((one) => one.size > limits.large_upload).map((one) => one.name);
    said.textContent = files.length
      ? `${size(bytes)} in all.${large.length ? ` Large: ${large.join(", ")}.` : ""}`
      : "";
  };

  /** Show a folder. An answer about one that is no longer the one asked for is let go. */
  async function open(path) {
    const mine = (asked = { path });
    let found;
    try {
      found = await api.get(`belljar/project?path=${encodeURIComponent(path)}&hidden=${hidden.checked}`);
      if (asked !== mine) return;
    } catch (error) {
      if (asked !== mine) return;
      asked = { path: at };
      said.textContent = error.message;
      return;
    }
    at = path;
    const steps = path ? path.split("/") : [];
    const name = root.split("/").at(-1) || root;
    crumbs.replaceChildren(
      ...[name, ...steps].map((step, depth) =>
        button({ label: step, class: "quiet", ariaCurrent: depth === steps.length ? "location" : null }, () =>
          open(steps.slice(0, depth).join("/")),
        ),
      ),
    );
    entries.replaceChildren(...found.entries.map((one) => (one.kind === "directory" ? folder(one) : file(one))));
    if (!found.entries.length) entries.append(make("li", { class: "hint" }, "There is nothing here."));
    if (found.left_out)
      entries.append(make("li", { class: "hint" }, `… and ${found.left_out} more that are not listed`));
    tell();
  }

  function folder(one) {
    return make(
      "li",
      {},
      button({ label: one.name, icon: "folder", words: true, class: "folder" }, () => open(one.path)),
    );
  }

  function file(one) {
    const tooLarge = one.size > limits.largest_upload;
    const box = make("input", { type: "checkbox", checked: chosen.has(one.path), disabled: tooLarge });
    box.addEventListener("change", () => {
      if (box.checked) chosen.set(one.path, one);
      else chosen.delete(one.path);
      tell();
    });
    const limit = tooLarge ? ` · more than the ${size(limits.largest_upload)} that this gateway takes` : "";
    return make(
      "li",
      { data: { name: one.name } },
      make(
        "label",
        {},
        box,
        icon("file"),
        make("span", { class: "name" }, one.name),
        make(
          "span",
          { class: "kind" },
          size(one.size),
          limit,
          make("span", { class: "when" }, ` · ${day(one.modified)}`),
        ),
      ),
    );
  }

  open("");
  return (await shown.closed) ?? [];
}

// -- files out --------------------------------------------------------------------------------------------------------

/** Show what would be saved where, and save what is approved. Nothing is written before. */
export async function save(api, container, files) {
  const asked = { container_id: container, file_ids: files.map((one) => one.id) };
  // Shown before there is an answer: what is asked about once is not asked about twice, and can be closed meanwhile.
  const buttons = make(
    "div",
    { class: "buttons" },
    button({ label: "Don’t save" }, () => shown.close()),
  );
  const shown = dialog("Save to the project?", buttons);
  // While it is written, it is too late to think again.
  shown.element.addEventListener("cancel", (event) => shown.element.inert && event.preventDefault());
  let told;
  try {
    told = await api.post("belljar/project/propose", asked);
  } catch (error) {
    if (!shown.element.open) return;
    shown.close();
    throw error;
  }
  if (!shown.element.open) return;
  const said = make("p", { class: "error", role: "alert", hidden: true });
  const yes = button({ label: "Save", class: "primary" }, write);
  const rows = told.proposals.map((proposal) => new Row(proposal, look, tell));
  buttons.before(
    make("p", { class: "hint" }, "Nothing is written to ", make("code", {}, told.project), " before you say so."),
    make(
      "ul",
      { class: "proposals" },
      rows.map((row) => row.element),
    ),
    said,
  );
  buttons.append(yes);
  yes.focus({ preventScroll: true });
  tell();

  /** What would happen at another place. An answer about a place that is no longer the one named is let go. */
  async function look(row) {
    const rename = rows.map((one) => ({ number: one.number, destination: one.destination }));
    const place = row.destination;
    try {
      const { proposals } = await api.post("belljar/project/propose", { ...asked, rename });
      if (row.destination !== place) return;
      row.show(proposals[row.number - 1]);
      said.hidden = true;
    } catch (error) {
      if (row.destination !== place) return;
      complain(error);
    }
    tell();
  }

  function tell() {
    const chosen = rows.filter((row) => row.chosen).length;
    yes.disabled = !chosen || rows.some((row) => row.busy);
    yes.querySelector("span").textContent = chosen ? `Save ${count(chosen, "file")}` : "Save";
  }

  function complain(error) {
    said.textContent = error.message;
    said.hidden = false;
  }

  async function write() {
    shown.element.inert = true;
    const approved = rows.filter((row) => row.chosen);
    try {
      const { saved } = await api.post("belljar/project/save", { ...asked, save: approved.map((row) => row.answer) });
      done(saved);
    } catch (error) {
      if (error.code === "changed") for (const row of approved) await look(row);
      complain(error);
      tell();
    } finally {
      shown.element.inert = false;
    }
  }

  function done(saved) {
    const lines = saved.map((one) => make("li", {}, make("code", {}, one.path), one.overwrote ? " (overwritten)" : ""));
    shown.element.replaceChildren(
      make("h2", {}, `Saved ${count(saved.length, "file")}`),
      make("p", { class: "hint" }, "In ", make("code", {}, told.project), ":"),
      make("ul", { class: "saved" }, lines),
      make(
        "div",
        { class: "buttons" },
        button({ label: "Close", class: "primary", autofocus: true }, () => shown.close()),
      ),
    );
  }

  await shown.closed;
}

/** One file that may be saved: whether, and where. */
class Row {
  #proposal;
  #box;
  #place;
  #shown;
  #wanted = true;
  #state = make("span", { class: "badge" });
  #more = make("div");

  constructor(proposal, look, changed) {
    this.number = proposal.number;
    this.#box = make("input", { type: "checkbox", ariaLabel: `Save ${proposal.name}` });
    this.#box.addEventListener("change", () => {
      this.#wanted = this.#box.checked;
      changed();
    });
    this.#place = make("input", {
      type: "text",
      class: "place",
      ariaLabel: `Where to save ${proposal.name}`,
      value: proposal.destination,
      spellcheck: false,
    });
    this.#place.addEventListener("input", changed);
    const leave = () => this.busy && look(this);
    this.#place.addEventListener("blur", leave);
    this.#place.addEventListener("keydown", (event) => event.key === "Enter" && leave());
    const about = `${size(proposal.size)} · ${proposal.mimeType ?? "unknown type"}`;
    this.element = make(
      "li",
      { data: { name: proposal.name } },
      make(
        "div",
        { class: "proposal" },
        this.#box,
        make(
          "div",
          { class: "about" },
          make("span", { class: "name" }, proposal.name),
          make("span", { class: "kind", title: about }, about),
        ),
        make("label", { class: "to" }, make("span", {}, "to"), this.#place),
        this.#state,
      ),
      this.#more,
    );
    this.show(proposal);
  }

  show(proposal) {
    this.#proposal = proposal;
    this.#shown = this.destination;
    const refused = proposal.state === null;
    this.#box.disabled = refused;
    this.#box.checked = this.#wanted && !refused;
    this.#state.textContent = refused ? "not here" : proposal.state;
    this.#state.dataset.state = proposal.state ?? "refused";
    this.#more.replaceChildren();
    if (refused) this.#more.append(make("p", { class: "error" }, proposal.refused));
    if (proposal.warning)
      this.#more.append(make("p", { class: "warning" }, `Careful: ${proposal.warning}. Read it first.`));
    if (proposal.diff) this.#more.append(diff(proposal.diff));
    else if (proposal.diff === "")
      this.#more.append(make("p", { class: "hint" }, "What is there already is the same."));
    else if (proposal.state === "overwrites")
      this.#more.append(make("p", { class: "hint" }, "What is there is not text, or too long to compare."));
  }

  get chosen() {
    return this.#box.checked;
  }

  get destination() {
    return this.#place.value;
  }

  /** Whether the place that is named is another than what is shown is about. */
  get busy() {
    return this.destination !== this.#shown;
  }

  /** What was seen is what is approved. */
  get answer() {
    return { number: this.number, destination: this.#proposal.destination, seen: this.#proposal.seen };
  }
}

function diff(text) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  const lines = text
    .replace(/\n$/, "")
    .split("\n")
    .slice(2)
    .map((line) => make("span", { class: kinds[line[0]] ?? "" }, `${line}\n`));
  return make(
    "details",
    { open: true },
    make("summary", {}, "What would change"),
    make("pre", { class: "diff", tabIndex: 0 }, lines),
  );
}
