"use strict";
// Two schedulers on the same episode, one above the other. Times in the data are tenths of a microsecond.
for (const root of document.querySelectorAll(".timeline")) timeline(root, JSON.parse(root.querySelector("script").textContent));

function timeline(root, data) {
  const NS = "http://www.w3.org/2000/svg";
  const VERSIONS = ["HVX", "HMX", "hybrid"], LETTERS = "VMH", ENDS = ["finished", "missed a deadline", "refused, queue full"];
  const ROW = { title: 22, slot: 24, ends: 18, strip: 22, gap: 10 };
  const STRIPS = [["HVX", "hvx"], ["HMX", "hmx"], ["DMA", "dma"], ["VTCM", "vtcm"]];
  const HEIGHT = ROW.title + 2 * ROW.slot + ROW.ends + STRIPS.length * ROW.strip + ROW.gap;
  const svg = root.querySelector("svg"), tip = root.querySelector(".tip"), status = root.querySelector("[aria-live]");
  const least = Math.min(200, data.end); // 20 us in view at least
  let [start, end] = data.view, width = 0, gutter = 0, pending = false, chosen = null;
  for (const take of data.takes) {
    take.slots = [0, 1].map(slot => take.stages.filter(stage => stage[2] === slot));
    for (const stage of take.stages) stage.take = take;
  }

  const draw = () => {
    pending = false;
    width = root.querySelector(".view").clientWidth;
    gutter = width < 520 ? 42 : 60;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT * data.takes.length + 26}`);
    svg.style.height = `${HEIGHT * data.takes.length + 26}px`;
    const parts = [];
    axis(parts);
    data.takes.forEach((take, i) => drawTake(parts, take, i * HEIGHT));
    svg.innerHTML = parts.join("");
  };
  const redraw = () => { if (!pending) { pending = true; requestAnimationFrame(draw); } };
  const x = t => gutter + (t - start) / (end - start) * (width - gutter);
  const time = px => start + (px - gutter) / (width - gutter) * (end - start);
  const attr = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

  function axis(parts) {
    const bottom = HEIGHT * data.takes.length;
    const raw = (end - start) / Math.max(2, Math.floor((width - gutter) / 60)), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map(k => k * power).find(s => s >= raw);
    const digits = (String(Number((step / 1e4).toPrecision(3))).split(".")[1] || "").length;
    for (let t = Math.ceil(start / step) * step; t <= end; t += step) {
      parts.push(`<line class="tick" x1="${x(t).toFixed(1)}" x2="${x(t).toFixed(1)}" y1="0" y2="${bottom}"/>`);
      if (x(t) < width - 14) parts.push(`<text class="label" text-anchor="middle" x="${x(t).toFixed(1)}" y="${bottom + 12}">${(t / 1e4).toFixed(digits)}</text>`);
    }
    parts.push(`<text class="label" x="0" y="${bottom + 12}">ms</text>`);
  }

  function drawTake(parts, take, top) {
    parts.push(`<text class="name" x="0" y="${top + 15}">${attr(take.scheduler)}</text>`);
    parts.push(`<text class="label" text-anchor="end" x="${width}" y="${top + 15}">${attr(summary(take))}</text>`);
    const places = { slots: top + ROW.title, ends: top + ROW.title + 2 * ROW.slot };
    take.slots.forEach((stages, slot) => {
      const y = places.slots + slot * ROW.slot;
      parts.push(`<text class="label" x="0" y="${y + 16}">${width < 520 ? "s" : "slot "}${slot}</text>`);
      drawSlot(parts, stages, y);
    });
    parts.push(`<text class="label" x="0" y="${places.ends + 13}">jobs</text>`);
    for (const [t, stream, kind, job] of take.ends) {
      if (t < start || t > end) continue;
      const px = x(t).toFixed(1), y = places.ends + ROW.ends / 2;
      const shape = kind === 0
        ? `<circle cx="${px}" cy="${y}" r="4.5"/>`
        : `<path d="M${px - 4.5} ${y - 4.5}l9 9m0 -9l-9 9"/>`;
      parts.push(`<g class="end ${kind ? "bad" : "good"}" style="--own:var(--stream-${stream})" data-say="${attr(`${data.streams[stream]} job ${job} ${ENDS[kind]} at ${ms(t)}`)}">${shape}</g>`);
    }
    STRIPS.forEach(([label, key], i) => drawStrip(parts, take, label, key, places.ends + ROW.ends + i * ROW.strip));
  }

  function drawSlot(parts, stages, y) {
    let open = null;
    const flush = () => { if (open) parts.push(block(open, y)); open = null; };
    for (let i = firstInView(stages); i < stages.length && stages[i][0] < end; i++) {
      const stage = stages[i], left = Math.max(x(stage[0]), gutter), right = Math.min(x(stage[0] + stage[1]), width);
      if (right <= gutter) continue;
      // Neighbours narrower than a pixel become one block.
      if (open && right - left < 1.5 && left - open.right < 0.7 && open.stage[3] === stage[3]) { open.right = right; open.count++; continue; }
      flush();
      open = { stage, left, right, count: 1 };
    }
    flush();
  }
  function block({ stage, left, right, count }, y) {
    const w = Math.max(right - left - (right - left > 3 ? 0.6 : 0), 0.6), picked = chosen === stage ? " chosen" : "";
    const letter = count === 1 && w > 11 ? `<text class="letter" x="${(left + w / 2).toFixed(1)}" y="${y + 16}">${LETTERS[stage[4]]}</text>` : "";
    return `<rect class="stage${picked}" x="${left.toFixed(1)}" y="${y + 1}" width="${w.toFixed(1)}" height="${ROW.slot - 2}" style="fill:var(--stream-${stage[3]})" data-at="${stage[0]}" data-slot="${stage[2]}"/>${letter}`;
  }
  function firstInView(stages) {
    let low = 0, high = stages.length;
    while (low < high) { const mid = (low + high) >> 1; if (stages[mid][0] + stages[mid][1] < start) low = mid + 1; else high = mid; }
    return low;
  }

  function drawStrip(parts, take, label, key, y) {
    const base = y + ROW.strip - 3, tall = ROW.strip - 6;
    parts.push(`<text class="label" x="0" y="${y + 14}">${label}</text><line class="tick" x1="${gutter}" x2="${width}" y1="${base}" y2="${base}"/>`);
    const columns = Math.max(40, Math.floor((width - gutter) / 2)), points = [[], []];
    for (let c = 0; c < columns; c++) {
      const from = time(gutter + c * (width - gutter) / columns), to = time(gutter + (c + 1) * (width - gutter) / columns);
      const shares = key === "vtcm" ? memory(take.vtcm, from, to) : [mean(take.use[key], from, to), 0];
      points[0].push(shares[0]);
      points[1].push(shares[0] + shares[1]);
    }
    const path = values => "M" + values.map((v, c) => {
      const a = gutter + c * (width - gutter) / columns, b = gutter + (c + 1) * (width - gutter) / columns, h = (base - v * tall).toFixed(1);
      return `${a.toFixed(1)} ${h}L${b.toFixed(1)} ${h}`;
    }).join("L") + `L${width} ${base}L${gutter} ${base}Z`;
    if (key === "vtcm") parts.push(`<path class="cut" d="${path(points[1])}"/>`);
    parts.push(`<path class="use" style="fill:var(--${key === "vtcm" ? "unclear" : key})" d="${path(points[0])}"/>`);
  }
  function mean(values, from, to) { // values are percent, one a bin
    const size = data.end / values.length;
    let sum = 0;
    for (let b = Math.max(0, Math.floor(from / size)); b < Math.min(values.length, to / size); b++)
      sum += values[b] * (Math.min(to, (b + 1) * size) - Math.max(from, b * size));
    return sum / (to - from) / 100;
  }
  function memory(steps, from, to) { // mean parts of VTCM: taken, and free outside the largest free block
    let low = 0, high = steps.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (steps[mid][0] <= from) low = mid; else high = mid - 1; }
    let used = 0, cut = 0;
    for (let i = low; i < steps.length && steps[i][0] < to; i++) {
      const next = i + 1 < steps.length ? steps[i + 1][0] : data.end, span = Math.max(0, Math.min(to, next) - Math.max(from, steps[i][0]));
      used += span * steps[i][1];
      cut += span * (data.vtcm - steps[i][1] - steps[i][2]);
    }
    return [used / (to - from) / data.vtcm, cut / (to - from) / data.vtcm];
  }

  const ms = t => `${(t / 1e4).toFixed(3)} ms`;
  function summary(take) {
    const seen = take.ends.filter(e => e[0] >= start && e[0] <= end);
    return `in view: ${seen.filter(e => e[2] === 0).length} jobs finished, ${seen.filter(e => e[2] === 1).length} deadlines missed`;
  }
  function describe(stage) {
    return `${stage.take.scheduler}: ${data.streams[stage[3]]} job ${stage[7]}, ${data.ops[stage[5]]}, ${VERSIONS[stage[4]]}, ` +
      `slot ${stage[2]}, ${stage[6]} contexts, VTCM ${stage[8]} KiB, ${ms(stage[0])} for ${(stage[1] / 10).toFixed(1)} us`;
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, least), data.end);
    start = Math.min(Math.max(from, 0), data.end - span);
    end = start + span;
    redraw();
  }
  const pan = share => show(start + share * (end - start), end + share * (end - start));
  const zoom = (factor, at = (start + end) / 2) => show(at - (at - start) * factor, at + (end - at) * factor);
  function jump(direction) {
    const middle = (start + end) / 2, margin = (end - start) * 0.01;
    const ahead = data.differences.filter(t => direction > 0 ? t > middle + margin : t < middle - margin);
    if (!ahead.length) { status.textContent = "no further deadline that only one of them misses"; return; }
    const t = direction > 0 ? ahead[0] : ahead[ahead.length - 1];
    show(t - (end - start) / 2, t + (end - start) / 2);
    status.textContent = `a deadline that only one misses, at ${ms(t)}`;
  }
  function choose(stage) {
    chosen = stage;
    status.textContent = describe(stage);
    if (stage[0] < start || stage[0] > end) show(stage[0] - (end - start) / 3, stage[0] + (end - start) * 2 / 3);
    else redraw();
  }
  function walk(direction) {
    const take = chosen ? chosen.take : data.takes[0];
    const stages = take.stages, at = chosen ? stages.indexOf(chosen) + direction : stages.findIndex(s => s[0] >= start);
    if (stages[at]) choose(stages[at]);
  }
  function other() {
    const take = data.takes[(data.takes.indexOf(chosen ? chosen.take : data.takes[0]) + (chosen ? 1 : 0)) % data.takes.length];
    const t = chosen ? chosen[0] : start;
    choose(take.stages.find(s => s[0] + s[1] > t) || take.stages[take.stages.length - 1]);
  }

  const actions = {
    in: () => zoom(0.6), out: () => zoom(1 / 0.6), left: () => pan(-0.25), right: () => pan(0.25),
    all: () => show(0, data.end), first: () => show(...data.view), next: () => jump(1), previous: () => jump(-1),
  };
  for (const button of root.querySelectorAll("button")) button.addEventListener("click", () => actions[button.dataset.do]());
  const keys = {
    ArrowLeft: actions.left, ArrowRight: actions.right, "+": actions.in, "=": actions.in, "-": actions.out, Home: actions.all, End: actions.first,
    n: actions.next, p: actions.previous, ",": () => walk(-1), ".": () => walk(1), o: other,
  };
  const view = root.querySelector(".view");
  view.addEventListener("keydown", event => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });

  const at = event => time(event.clientX - svg.getBoundingClientRect().left);
  view.addEventListener("wheel", event => {
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.004), at(event));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / (width - gutter));
    else return; // the page scrolls
    event.preventDefault();
  }, { passive: false });

  const fingers = new Map();
  let moved = 0;
  view.addEventListener("pointerdown", event => { fingers.set(event.pointerId, event.clientX); moved = 0; view.setPointerCapture(event.pointerId); });
  view.addEventListener("pointermove", event => {
    if (!fingers.has(event.pointerId)) { point(event); return; }
    const before = [...fingers.values()], old = fingers.get(event.pointerId);
    fingers.set(event.pointerId, event.clientX);
    moved += Math.abs(event.clientX - old);
    tip.hidden = true;
    if (fingers.size === 1) pan((old - event.clientX) / (width - gutter));
    else if (fingers.size === 2) {
      const after = [...fingers.values()], spread = v => Math.max(8, Math.abs(v[0] - v[1]));
      zoom(spread(before) / spread(after), time((after[0] + after[1]) / 2 - svg.getBoundingClientRect().left));
    }
  });
  const lift = event => {
    if (fingers.delete(event.pointerId) && moved < 5 && event.type === "pointerup") {
      const found = under(event);
      if (found.stage) choose(found.stage); else if (found.say) status.textContent = found.say;
    }
  };
  view.addEventListener("pointerup", lift);
  view.addEventListener("pointercancel", lift);
  view.addEventListener("pointerleave", () => { tip.hidden = true; });

  function under(event) {
    const box = svg.getBoundingClientRect(), t = at(event), y = event.clientY - box.top, i = Math.floor(y / HEIGHT), take = data.takes[i];
    if (!take || event.clientX - box.left < gutter) return {};
    const inside = y - i * HEIGHT, slot = Math.floor((inside - ROW.title) / ROW.slot);
    if (inside >= ROW.title && slot < 2) {
      const stage = take.slots[slot].find(s => s[0] <= t && t < s[0] + s[1]);
      return stage ? { stage, say: describe(stage) } : {};
    }
    const strip = Math.floor((inside - ROW.title - 2 * ROW.slot - ROW.ends) / ROW.strip);
    if (strip < 0) {
      const mark = document.elementFromPoint(event.clientX, event.clientY).closest("[data-say]");
      return mark ? { say: mark.dataset.say } : {};
    }
    if (strip >= STRIPS.length) return {};
    const [label, key] = STRIPS[strip], pixel = (end - start) / (width - gutter);
    if (key !== "vtcm") return { say: `${take.scheduler}: ${label} busy ${(100 * mean(take.use[key], t - pixel, t + pixel)).toFixed(0)} % at ${ms(t)}` };
    const [used, cut] = memory(take.vtcm, t, t + pixel);
    return { say: `${take.scheduler}: VTCM ${(100 * used).toFixed(0)} % taken, ${(100 * cut).toFixed(0)} % free outside the largest block, at ${ms(t)}` };
  }
  function point(event) {
    const { say } = under(event), box = root.getBoundingClientRect();
    tip.hidden = !say;
    if (!say) return;
    tip.textContent = say;
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  }
  new ResizeObserver(redraw).observe(view);
  draw();
}
