// The list of samples: filters, keys, and what is shown of one. All text of the data goes in as text, never as HTML.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const list = document.getElementById("list"), detail = document.getElementById("detail");
  const filters = document.getElementById("filters"), count = document.getElementById("count");
  const MARKS = { right: "✓", wrong: "✗", partly: "◐", unscored: "–" };
  let shown = [], current = null;

  // An element with attributes and children; children that are null or "" are left out.
  function make(tag, attributes = {}, ...children) {
    const space = ["svg", "rect", "path", "line", "text", "title"].includes(tag) ? "http://www.w3.org/2000/svg" : null;
    const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, value);
    element.append(...children.flat().filter((child) => child !== null && child !== "" && child !== undefined));
    return element;
  }
  const percent = (value) => (value == null ? "none" : `${(100 * value).toFixed(0)} %`);

  // -- filters --------------------------------------------------------------------------------------------------------
  data.entries.forEach((entry, index) => {
    entry.index = index;
    const parts = [entry.id, entry.question, entry.video, ...(entry.options || []).flat()];
    for (const answer of entry.answers) {
      parts.push(answer.answer, answer.text, answer.reason);
      if (answer.story) parts.push(answer.story.reply, ...answer.story.evidence.map((one) => `${one.tool} ${one.query} ${one.result}`));
    }
    entry.words = parts.filter(Boolean).join("\n").toLowerCase();
  });

  function value(name) {
    const field = filters.elements[name];
    return field ? field.value : "";
  }
  function fits(entry) {
    const method = value("method"), verdict = value("verdict"), text = value("text").trim().toLowerCase();
    const answers = entry.answers.filter((one) => !method || one.method === method);
    return (!value("condition") || entry.condition === value("condition"))
      && (!value("task") || entry.task === value("task"))
      && answers.length > 0 && (!verdict || answers.some((one) => one.verdict === verdict))
      && (!text || entry.words.includes(text));
  }
  function filter() {
    shown = data.entries.filter(fits);
    list.replaceChildren(...shown.map(row));
    count.textContent = `${shown.length} of ${data.entries.length} shown.`;
    if (!shown.includes(current)) { current = null; detail.replaceChildren(); }
    mark();
  }
  function row(entry) {
    const chips = entry.answers.map((one) => make("span", { class: one.verdict }, `${MARKS[one.verdict]} ${one.method}`));
    const button = make("button", { type: "button", "data-index": entry.index },
      make("span", { class: "head" }, `${entry.id} · ${entry.task}`, entry.condition ? make("span", {}, entry.condition) : null),
      make("span", { class: "question" }, entry.question || "(question not available here)"),
      make("span", { class: "chips" }, chips));
    button.addEventListener("click", () => open(entry, true));
    return make("li", {}, button);
  }
  function mark() {
    for (const button of list.querySelectorAll("button")) {
      button.setAttribute("aria-current", String(current !== null && Number(button.dataset.index) === current.index));
    }
  }

  // -- one sample -----------------------------------------------------------------------------------------------------
  function open(entry, focus) {
    current = entry;
    mark();
    const back = make("button", { type: "button", class: "back" }, "Back to the list");
    back.addEventListener("click", () => list.querySelector('[aria-current="true"]').focus());
    const method = value("method");
    const first = entry.answers.find((one) => (method ? one.method === method : one.checks || one.frames.length));
    const answers = [...entry.answers].sort((a, b) => (b.method === method) - (a.method === method))
      .map((one) => answerOf(entry, one, one === first));
    detail.replaceChildren(make("div", {}, back,
      make("h3", {}, `${entry.id} · ${entry.task}${entry.condition ? ` · ${entry.condition}` : ""}`),
      make("p", { class: "dim" }, entry.video),
      make("p", {}, entry.question), optionsOf(entry),
      entry.note ? make("p", { class: "note" }, `Frames cannot be shown: ${entry.note}`) : null, answers));
    if (focus) { detail.focus({ preventScroll: true }); if (matchMedia("(max-width: 50rem)").matches) detail.scrollIntoView(); }
    history.replaceState(null, "", `#sample-${entry.index}`);
  }
  function optionsOf(entry) {
    if (!entry.options) return "";
    if (!entry.options.length) return make("p", {}, `truth: ${entry.truth}`);
    return make("ul", { class: "options" }, entry.options.map(([letter, text]) => {
      const by = entry.answers.filter((one) => one.answer === letter).map((one) => one.method);
      const truth = letter === entry.truth;
      return make("li", { class: truth ? "truth" : null }, `${letter}. ${text} `,
        truth ? make("strong", { class: "right" }, "truth ") : null,
        by.length ? make("span", { class: "dim" }, `← ${by.join(", ")}`) : null);
    }));
  }
  function answerOf(entry, answer, opened) {
    const says = answer.checks ? "" : answer.answer === null ? answer.status : `answer ${answer.answer}`;
    const sure = answer.source ? `, confidence ${percent(answer.confidence)} (${answer.source})` : "";
    const block = make("details", { class: "answer" },
      make("summary", {}, make("span", { class: answer.verdict }, `${MARKS[answer.verdict]} ${answer.verdict} `), answer.method,
        make("span", { class: "dim" }, ` ${says}${answer.checks ? "" : sure || ", no confidence"}`)),
      answer.reason ? make("p", { class: "error" }, answer.reason) : null,
      answer.checks ? captionOf(answer) : [...seenOf(entry, answer), ...storyOf(answer)]);
    block.open = opened;
    return block;
  }

  // Reliability of the profiled frames as bars over the clip, the selected ones marked below, corrupted runs behind.
  function stripOf(entry, answer) {
    const width = 640, height = 74, left = 24, top = 6, base = 48;
    const at = (frame) => left + ((width - left - 8) * frame) / Math.max(entry.last, 1);
    const { frames, reliability } = answer.strip;
    const bar = Math.max(2, ((width - left) / Math.max(frames.length, 1)) * 0.7);
    const low = Math.min(...reliability), high = Math.max(...reliability);
    const words = `Reliability of ${frames.length} profiled frames, ${low.toFixed(2)} to ${high.toFixed(2)}; selected: ${answer.frames.join(", ")}`;
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Reliability" }, make("svg", { class: "strip", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words },
      entry.corrupted.map(([a, b]) => make("rect", { class: "hit", x: at(a), y: top, width: Math.max(2, at(b) - at(a)), height: base - top })),
      make("line", { class: "axis", x1: left, x2: width, y1: base, y2: base }),
      frames.map((frame, i) => {
        const tall = Math.max(1, (base - top) * reliability[i]);
        return make("rect", { class: "bar", x: at(frame) - bar / 2, y: base - tall, width: bar, height: tall },
          make("title", {}, `frame ${frame}: reliability ${reliability[i].toFixed(2)}`));
      }),
      answer.frames.map((frame) => make("path", { class: "pick", d: `M${at(frame)} ${base + 2}l-4 8h8z` })),
      make("text", { x: 0, y: top + 8 }, "1"), make("text", { x: 0, y: base }, "0"),
      make("text", { x: left, y: height - 3 }, `frame 0–${entry.last}; ▲ selected${entry.corrupted.length ? "; shaded: corrupted" : ""}`)));
  }
  function seenOf(entry, answer) {
    if (!answer.frames.length) return [make("p", { class: "dim" }, "Used no frames.")];
    const hurt = (frame) => entry.corrupted.some(([a, b]) => a <= frame && frame <= b);
    const thumbs = answer.pictures.filter((one) => one.picture !== null).map((one) => make("figure", { class: hurt(one.frame) ? "hurt" : null },
      make("img", { src: `data:image/jpeg;base64,${data.pictures[one.picture]}`, alt: `frame ${one.frame} at ${one.time.toFixed(2)} s`, loading: "lazy" }),
      make("figcaption", {}, `${one.frame} · ${one.time.toFixed(2)} s${hurt(one.frame) ? " · corrupted" : ""}`)));
    const rest = answer.frames.length - thumbs.length;
    const seen = answer.strip ? stripOf(entry, answer) : entry.note ? "" : make("p", { class: "dim" }, "This method measures no reliability.");
    return [make("h4", {}, "Frames used"), seen, make("div", { class: "thumbs" }, thumbs),
      rest > 0 && !entry.note ? make("p", { class: "dim" }, `${rest} more used frames are not shown: ${answer.frames.join(", ")}`) : "",
      make("p", { class: "dim" }, `${answer.calls} tool calls, ${answer.failures} failed; relative cost ${answer.cost.toFixed(2)}`)];
  }
  function storyOf(answer) {
    const story = answer.story;
    if (!story) {
      const tiers = Object.entries(answer.tiers).filter(([, n]) => n).map(([name, n]) => `${n} ${name}`).join(", ");
      return [tiers ? make("p", { class: "dim" }, `Evidence by tier: ${tiers}`) : ""];
    }
    const tiers = [...new Set(story.evidence.map((one) => one.tier))];
    const groups = tiers.map((tier) => make("div", { class: `tier ${tier || ""}` },
      tier ? make("strong", {}, `${tier} tier`) : null, story.evidence.filter((one) => one.tier === tier).map(callOf)));
    return [
      ...story.readings.map((text) => make("p", { class: "note" }, text)),
      story.frame_calls.length ? make("h4", {}, `Calls about frames (dominant disturbance: ${story.dominant})`) : "",
      ...story.frame_calls.map((one) => make("div", { class: "call" }, `${one.tool}: ${one.result} `,
        make("span", { class: "facts" }, `confidence ${one.confidence.toFixed(2)}, cost ${one.cost.toFixed(2)}`))),
      story.evidence.length ? make("h4", {}, "Evidence") : "", ...groups,
      story.reply ? make("h4", {}, "Reasoning and answer") : "", story.reply ? make("pre", {}, story.reply) : "",
      conversationOf(story.messages)];
  }
  function callOf(one) {
    const facts = [`confidence ${one.confidence.toFixed(2)} (tool's own ${one.intrinsic.toFixed(2)})`,
      one.disturbance === null ? "" : `mean d ${one.disturbance.toFixed(2)}`, `frames ${one.frames || "none"}`,
      `cost ${one.cost.toFixed(2)}`, one.calls > 1 ? `called ${one.calls} times` : ""].filter(Boolean).join("; ");
    return make("div", { class: "call" }, make("div", {}, make("strong", {}, one.tool), ` ${one.query} `, make("span", { class: "dim" }, `(${one.type})`)),
      one.error ? make("div", { class: "error" }, `failed, ${one.error}`) : make("div", {}, one.result),
      one.note ? make("div", { class: "dim" }, one.note) : null, make("div", { class: "facts" }, facts));
  }
  function conversationOf(messages) {
    if (messages === null) return make("p", { class: "dim" }, "The conversation is left out for the page's size.");
    if (!messages.length) return "";
    return make("details", {}, make("summary", {}, `Whole conversation (${messages.length} messages)`),
      messages.map((one) => [make("h4", {}, one.role), make("pre", {}, one.text)]));
  }
  function captionOf(answer) {
    const rows = answer.checks.map((one) => make("tr", {}, make("td", { class: one.verdict }, `${MARKS[one.verdict]} ${one.verdict}`),
      make("td", {}, one.kind), make("td", {}, one.constraint), make("td", {}, one.text), make("td", {}, one.reason)));
    const heads = ["verdict", "kind", "constraint", "check", "reason"].map((name) => make("th", { scope: "col" }, name));
    return [answer.thinking ? make("details", {}, make("summary", {}, "Thinking"), make("pre", {}, answer.thinking)) : "",
      answer.text === null ? "" : make("pre", {}, answer.text),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Check items" },
        make("table", { class: "checks" }, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)))];
  }

  // -- keys -----------------------------------------------------------------------------------------------------------
  function step(by) {
    if (!shown.length) return;
    const place = shown.indexOf(current);
    const next = shown[Math.min(shown.length - 1, Math.max(0, place < 0 ? 0 : place + by))];
    open(next, false);
    const button = list.querySelector('[aria-current="true"]');
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea"), listed = list.contains(event.target);
    if (typing) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "j" || (listed && event.key === "ArrowDown")) { event.preventDefault(); step(1); }
    else if (event.key === "k" || (listed && event.key === "ArrowUp")) { event.preventDefault(); step(-1); }
    else if (event.key === "/") { event.preventDefault(); filters.elements.text.focus(); }
  });
  filters.addEventListener("input", filter);
  filters.addEventListener("reset", () => setTimeout(filter));
  filters.addEventListener("submit", (event) => event.preventDefault());
  filter();
  const wanted = /^#sample-(\d+)$/.exec(location.hash);
  if (wanted && data.entries[wanted[1]]) open(data.entries[wanted[1]], true);
})();
