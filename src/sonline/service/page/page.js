// The live page: samples come as server-sent events, read with fetch so that the token is a header.
"use strict";

const $ = (id) => document.getElementById(id);
const HISTORY = 3600;
const STALE = 4; // seconds without a sample
let token = sessionStorage.getItem("token") || "";
let samples = [];
let marks = []; // changes: time and text
let received = 0; // when the last sample came
let charts = {};
let errors = (value) => percent(value); // how errors are written: a share, or the loss of a regression
let stopped = null; // ends the stream that is being read

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = (value, digits = 3) =>
  value === null || value === undefined || !Number.isFinite(value) ? "–"
    : Math.abs(value) >= 1e6 ? (value / 1e6).toFixed(2) + " million"
    : Math.abs(value) >= 1e4 || Number.isInteger(value) ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(digits)));
const seconds = (value) =>
  value === null || value === undefined ? "–"
    : value < 1 ? `${short(value * 1000, 2)} ms` : value < 120 ? `${short(value, 2)} s`
    : value < 7200 ? `${short(value / 60, 2)} min` : `${short(value / 3600, 2)} h`;

const percent = (value, digits = 3) =>
  value === null || value === undefined ? "–" : `${short(100 * value, digits)} %`;
const share = (value) => `${(100 * value).toFixed(1)} %`;
const memory = (value) =>
  value < 1e6 ? `${short(value / 1e3)} kB` : value < 1e9 ? `${short(value / 1e6)} MB` : `${short(value / 1e9)} GB`;
const KINDS = ["--a", "--b", "--d", "--e", "--f"]; // classes
let past = []; // curves of the last minute
const SHADOWS = ["--b", "--e", "--f", "--d"];

const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");

async function get(path, signal) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) {
    const { error } = await answer.json();
    throw Object.assign(new Error(error), { denied: true });
  }
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer;
}

async function post(path, body) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method: "POST", headers, body });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

async function change(action, question) { // promote a version, or roll back
  if (!confirm(question)) return;
  try {
    const { champion } = await post(`/v1/models/${encodeURIComponent($("model").value)}/${action}`);
    $("version-answer").textContent = `Version ${champion} is the champion.`;
  } catch (error) {
    $("version-answer").textContent = error.message;
  }
}

async function explain(event) { // what each feature adds to a prediction
  event.preventDefault();
  try {
    const body = `{"x": ${$("explained").value}}`;
    const { raw, label, parts } = await post(`/v1/models/${encodeURIComponent($("model").value)}/explain`, body);
    $("explain-answer").textContent = `Raw prediction${label === null ? "" : ` of ${label}`}: ${short(raw, 4)}`;
    const shown = parts.filter(([, part]) => part !== 0).slice(0, 12);
    bars("parts", shown.map(([name, part]) =>
      [name, Math.abs(part), (part > 0 ? "+" : "") + short(part), part < 0 ? "less" : ""]));
  } catch (error) {
    $("explain-answer").textContent = error.message;
    $("parts").replaceChildren();
  }
}

function say(text, kind = "") {
  $("state").textContent = text;
  $("state").className = `state ${kind}`;
}

function command(path, body) {
  const secret = token ? ' -H "authorization: Bearer $SONLINE_TOKEN"' : "";
  return `curl${secret} -H 'content-type: application/json' \\\n  -d '${body}' \\\n  ${location.origin}${path}`;
}

async function begin() {
  $("create-command").textContent = command("/v1/models", '{"name": "clicks"}');
  try {
    const { models } = await (await get("/v1/models")).json();
    $("login").hidden = true;
    $("empty").hidden = models.length > 0;
    $("model").hidden = !models.length;
    list(models);
    const wanted = decodeURIComponent(location.hash.slice(1));
    if (models.some(({ name }) => name === wanted)) $("model").value = wanted;
    if (models.length) follow($("model").value);
    else { say("no model"); setTimeout(begin, 3000); }
  } catch (error) {
    if (error.denied) {
      $("login").hidden = false;
      $("denied").textContent = token ? error.message : "";
      say("locked", "bad");
    } else {
      say("no connection", "bad");
      setTimeout(begin, 2000);
    }
  }
}

function list(models) {
  const chosen = $("model").value;
  $("model").replaceChildren(...models.map(({ name }) => new Option(name, name)));
  if (models.some(({ name }) => name === chosen)) $("model").value = chosen;
}

async function refresh() { // models that were created since the page was opened
  if ($("model").hidden || document.activeElement === $("model")) return;
  try {
    const { models } = await (await get("/v1/models")).json();
    if (models.length !== $("model").options.length) list(models);
  } catch { /* the stream says that there is no connection */ }
}

async function follow(name) {
  if (stopped) stopped.abort();
  const mine = (stopped = new AbortController());
  location.hash = encodeURIComponent(name);
  $("learn-command").textContent =
    command(`/v1/models/${name}/learn`, '{"x": {"price": 3.5, "shop": "corner"}, "y": 1}');
  while (!mine.signal.aborted) {
    try {
      const answer = await get(`/v1/models/${encodeURIComponent(name)}/events`, mine.signal);
      $("main").hidden = false;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        let end;
        while ((end = text.indexOf("\n\n")) >= 0) {
          take(text.slice(0, end));
          text = text.slice(end + 2);
        }
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.denied) return begin();
    }
    say("no connection", "bad");
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

function take(event) {
  const kind = /^event: (.*)$/m.exec(event)?.[1];
  const data = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "null");
  if (kind === "history") { // after a restart, what was before it stays
    samples = [...samples.filter(({ time }) => !data.length || time < data[0].time), ...data];
    if (data.length) show(data[data.length - 1]);
  } else if (kind === "inside") inside(data);
  else if (kind === "sample" && data.time !== samples[samples.length - 1]?.time) {
    samples.push(data);
    if (samples.length > HISTORY) samples.shift();
    show(data);
  }
}

function age() { // figures that are no longer true are grey, with their age
  const old = received ? (Date.now() - received) / 1000 : 0;
  $("main").querySelector(".tiles").classList.toggle("stale", old > STALE);
  if (old > STALE) say(`no connection; figures are ${seconds(old)} old`, "bad");
}

function show(now) {
  received = Date.now();
  say(now.ready ? "live" : "replaying the log", now.ready ? "good" : "");
  $("problem").hidden = !now.problem;
  $("problem").textContent = now.problem ?? "";
  const learned = now.versions[now.champion]?.learned;
  $("main").classList.toggle("new", !learned);
  $("demo").hidden = now.versions[1]?.origin !== "demonstration";
  $("events").textContent = short(learned, 4);
  $("rate").textContent = short(now.rate);
  $("latency").textContent = now.p50 === null ? "–" : `${short(now.p50, 2)} / ${short(now.p99, 2)} ms`;
  $("waiting").textContent = short(now.waiting);
  $("delay").textContent = now.delay50 === null ? "–" : `${seconds(now.delay50)} / ${seconds(now.delay99)}`;
  $("lag").textContent = short(now.lag);
  const names = Object.keys(now.versions);
  const from = now.time - Number($("range").value);
  const shown = samples.filter(({ time }) => time >= from);
  const times = shown.map(({ time }) => time);
  const line = (version, what) => shown.map((one) => one.versions[version]?.[what] ?? null);
  const champion = String(now.champion);
  $("loss-section").hidden = names.length < 2;
  $("error-section").classList.toggle("alone", names.length < 2);
  if (learned) {  // a hidden box has no width to draw in
    const versions = (what) => names.map((name, place) => {
      const best = name === champion;
      const after = names.indexOf(champion) < place ? place - 1 : place;
      return [`${name}: ${now.versions[name].origin}${best ? " (champion)" : ""}`,
        best ? "--a" : SHADOWS[after % SHADOWS.length], line(name, what), best ? 2.2 : 1.4];
    });
    draw("error-chart", 260, [...versions("error"),
      ["last label", "--c", line(champion, "last_label"), 1, [3, 4]],
      ["prior", "--c", line(champion, "prior"), 1.2, [9, 4]],
    ], times, errors);
    if (names.length > 1) draw("loss-chart", 260, versions("loss"), times);
    draw("rate-chart", 150, [["events/s", "--d", shown.map(({ rate }) => rate), 1.6]], times);
  }
  $("versions").tBodies[0].replaceChildren(...names.map((name) => {
    const one = now.versions[name];
    const button = document.createElement("button");
    const best = name === champion;
    button.textContent = best ? "roll back" : "promote";
    button.addEventListener("click", () => (best
      ? change("rollback", "Make the previous champion the champion again?")
      : change(`versions/${name}/promote`, `Make version ${name} the champion?`)));
    return row([name, one.role, one.origin, short(one.learned, 5), short(one.loss, 4),
      short(one.mean_loss, 4), errors(one.error), names.length > 1 ? button : ""], one.problem);
  }));
}

function row(cells, title) {
  const line = document.createElement("tr");
  for (const cell of cells) {
    const box = document.createElement("td");
    box.append(cell);
    line.append(box);
  }
  if (title) line.title = title;
  return line;
}

function draw(id, height, lines, times, unit = (value) => short(value)) {
  const box = $(id);
  const key = lines.map(([label, name]) => label + name).join() + colour("--text") + unit(0.5);
  const data = [times, ...lines.map(([, , values]) => values)];
  let chart = charts[id];
  if (chart && chart.key === key) return chart.plot.setData(data);
  chart?.plot.destroy();
  chart?.legend.remove();
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line") } };
  const legend = document.createElement("div");
  legend.className = "legend";
  const parts = lines.map(([label, name, , , dash]) => {
    const item = document.createElement("span");
    const [mark, value, apart] = ["i", "b", "small"].map((tag) => document.createElement(tag));
    mark.style.borderTopStyle = dash ? (dash[0] > 5 ? "dashed" : "dotted") : "solid";
    mark.style.borderColor = colour(name);
    item.append(mark, `${label} `, value, " ", apart);
    legend.append(item);
    return { value, apart };
  });
  const best = lines.findIndex(([label]) => label.endsWith("(champion)"));
  const tell = (plot) => { // the values where the cursor is, or the last ones
    const place = plot.cursor.idx ?? plot.data[0].length - 1;
    const value = (number) => plot.data[number + 1]?.[place];
    parts.forEach((part, number) => {
      const mine = value(number), its = best < 0 ? null : value(best);
      const both = number !== best && Number.isFinite(mine) && Number.isFinite(its);
      part.value.textContent = unit(mine ?? null);
      part.apart.textContent = both ? `(${mine >= its ? "+" : "−"}${unit(Math.abs(mine - its)).replace("%", "points")})` : "";
    });
  };
  const flags = (plot) => { // promotions, new versions, restarts
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--dim");
    ctx.setLineDash([2, 4]);
    ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
    for (const [number, [time, text]] of marks.entries()) {
      const x = plot.valToPos(time, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (lines.length < 2) continue;
      const right = x > bbox.left + 0.7 * bbox.width;
      ctx.textAlign = right ? "right" : "left"; // names of marks that are close do not overlap
      ctx.fillText(text, x + (right ? -4 : 4), bbox.top + (11 + 12 * (number % 3)) * devicePixelRatio);
    }
    ctx.restore();
  };
  const plot = new uPlot({
    width: box.clientWidth, height, cursor: { drag: { x: false, y: false } }, legend: { show: false },
    hooks: { draw: [flags, tell], setCursor: [tell] },
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.25] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map(clock), space: 80, size: 34 }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => unit(tick)) }],
    series: [{}, ...lines.map(([label, name, , width, dash]) => ({ label, stroke: colour(name), width, dash,
      points: { show: (plot) => plot.data[0].length < 3 } }))],
  }, data, box);
  if (lines.length > 1) box.append(legend);
  charts[id] = { plot, key, height, legend };
}

function bars(id, items) {
  const most = Math.max(...items.map(([, value]) => value), 1e-300);
  $(id).replaceChildren(...items.map(([label, value, shown, kind]) => {
    const line = document.createElement("div");
    line.className = `bar ${kind ?? ""}`;
    const [name, track, text] = ["span", "div", "span"].map((tag) => document.createElement(tag));
    name.textContent = label;
    text.textContent = shown;
    const bar = document.createElement("i");
    bar.style.width = `${Math.max(0.3, (100 * value) / most)}%`;
    track.append(bar);
    line.append(name, track, text);
    return line;
  }));
}

function inside(now) {
  marks = now.marks;
  const classes = now.task !== "regression";
  const name = classes && now.loss === "logistic" ? "log loss" : `${now.loss} loss`;
  errors = classes ? percent : (value) => short(value, 4);
  $("error-title").textContent = classes ? "Wrong predictions" : `Mean ${name}`;
  $("versions").classList.toggle("without-errors", !classes);
  $("prior-text").textContent = classes ? "most common one" : "mean of all so far";
  $("loss-name").textContent = `Mean ${name}`;
  bars("members", now.members.map(([name, next, later]) =>
    [name, later, `${share(later)} (next ${share(next)})`]));
  const spectrum = now.spectrum.map((value, place) => [`λ${place + 1}`, value, short(value)]);
  if (now.tail !== null) spectrum.push(["tail", now.tail, short(now.tail), "tail"]);
  bars("spectrum", spectrum);
  $("calibration-section").hidden = !now.calibration.length;
  calibration(now.calibration);
  $("many-features").hidden = now.tail !== null || now.weights.length > 0 || !now.features;
  const most = Math.max(...now.weights.map(([, weight, before]) => Math.abs(weight - before)), 1e-300);
  $("weights").tBodies[0].replaceChildren(...now.weights.map(([name, weight, before]) => {
    const change = weight - before;
    const bar = document.createElement("span");
    bar.className = "move";
    const part = document.createElement("i");
    const width = (50 * Math.abs(change)) / most;
    part.style.width = `${width}%`;
    part.style.left = `${change < 0 ? 50 - width : 50}%`;
    if (change < 0) part.className = "less";
    bar.append(part);
    return row([name, short(weight), (change > 0 ? "+" : "") + short(change, 2), bar]);
  }));
  curves(now.curves, now.unit);
  $("columns-section").hidden = !now.columns.length;
  $("columns").tBodies[0].replaceChildren(...now.columns.map(([name, there, before, mean, meanBefore, apart]) =>
    row([name, percent(there), percent(before), short(mean), short(meanBefore), apart === null ? "–" : short(apart, 2)])));
  if ($("explained").value === "{}" && now.columns.length) {
    const means = now.columns.filter(([, , , , mean]) => mean !== null).map(([name, , , , mean]) => [name, Number(mean.toPrecision(3))]);
    $("explained").value = JSON.stringify(Object.fromEntries(means));
  }
  $("footer").textContent = `${now.features.toLocaleString("en")} feature${now.features === 1 ? "" : "s"} · `
    + `${memory(now.bytes)} in memory · ${name}`;
}

function svg(tag, settings, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(settings)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

function curves(columns, unit) { // a panel for each column: its curves over the density of the rows
  $("curves-section").hidden = !columns.length;
  if (!columns.length) return;
  const now = Date.now();
  while (past.length > 1 && past[1].time < now - 60_000) past.shift();
  const before = new Map(past.length ? past[0].columns.map((column) => [column.feature, column]) : []);
  past.push({ time: now, columns });
  const inside = ({ values, contributions }, [from, to]) =>
    values.map((value, place) => [value, contributions[place]]).filter(([value]) => value >= from && value <= to);
  const ends = columns.flatMap((column) =>
    column.curves.flatMap((curve) => inside(curve, column.shown).map(([, part]) => part)));
  const low = Math.min(0, ...ends), high = Math.max(0, ...ends);
  const wide = innerWidth < 600 ? 170 : 240, tall = 150, top = 20, foot = tall - 20, box = foot - top;
  $("curves-unit").textContent = unit;
  $("curves-scale").textContent = `${short(low, 2)} to ${short(high, 2)}`;
  const labels = columns[0].curves.map(({ label }) => label);
  $("curves-key").replaceChildren(...(labels.length < 2 ? [] : labels.map((label, place) => {
    const name = document.createElement("b");
    name.style.color = `var(${KINDS[place % KINDS.length]})`;
    name.textContent = `${label} `;
    return name;
  })));
  $("curves").replaceChildren(...columns.map((column) => {
    const [first, last] = column.shown;
    const from = Math.min(first, ...column.bars.map(([start]) => start));
    const to = Math.max(last, ...column.bars.map(([, end]) => end));
    const x = (value) => (wide * (value - from)) / (to - from || 1);
    const y = (part) => top + 3 + ((box - 6) * (high - part)) / (high - low || 1);
    const line = (curve, settings) => svg("polyline", { fill: "none", ...settings,
      points: inside(curve, column.shown).map(([value, part]) => [x(value), y(part)]).join(" ") });
    const root = svg("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `Curve of ${column.feature}` });
    const lines = svg("svg", { y: top, width: wide, height: box, viewBox: `0 ${top} ${wide} ${box}` }); // cuts them
    lines.append(
      ...(before.get(column.feature)?.curves ?? []).map((curve) =>
        line(curve, { stroke: "var(--c)", "stroke-dasharray": "4 3", class: "before" })),
      ...column.curves.map((curve, place) =>
        line(curve, { stroke: `var(${KINDS[place % KINDS.length]})`, "stroke-width": 1.8 })),
    );
    root.append(
      svg("title", {}, column.feature),
      svg("text", { x: 0, y: 12, class: "name" }, column.feature.length > 30 ? `${column.feature.slice(0, 29)}…` : column.feature),
      ...column.bars.map(([start, end, height]) => svg("rect", { fill: "var(--line)", x: x(start),
        width: Math.max(0.5, x(end) - x(start)), y: foot - 0.4 * box * height, height: 0.4 * box * height })),
      svg("path", { d: `M0 ${y(0)}H${wide}`, stroke: "var(--c)", "stroke-dasharray": "1 3" }),
      svg("path", { d: `M0 ${foot}H${wide}`, stroke: "var(--line)" }),
      lines,
      svg("text", { x: Math.max(0, x(first)), y: tall - 5 }, short(first)),
      svg("text", { x: Math.min(wide, x(last)), y: tall - 5, "text-anchor": "end" }, short(last)),
    );
    return root;
  }));
}

function calibration(points) {
  const size = 220, edge = 26, inner = size - 2 * edge;
  const at = ([said, right]) => [edge + said * inner, size - edge - right * inner];
  const all = points.reduce((sum, [, , count]) => sum + count, 0) || 1;
  const places = points.map(at);
  const picture = (label) => svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label });
  const root = picture("Calibration"), counts = picture("How often each probability is predicted");
  const most = Math.max(...points.map(([, , count]) => count), 1e-300);
  counts.append(
    svg("path", { d: `M${at([0, 0])}L${at([1, 0])}`, stroke: "var(--line)" }),
    ...points.map(([said, , count]) => svg("rect", { fill: "var(--a)", width: inner / 10 - 3,
      x: edge + Math.min(9, Math.floor(said * 10)) * inner / 10 + 1.5, height: (count / most) * inner,
      y: size - edge - (count / most) * inner })),
    svg("text", { x: edge, y: size - 8 }, "0"), svg("text", { x: size - edge - 4, y: size - 8 }, "1"),
    svg("text", { x: size / 2 - 30, y: size - 8 }, "predicted"),
    svg("text", { x: edge, y: edge - 8 }, `most common: ${percent(most / all)}`),
  );
  root.append(
    svg("rect", { x: edge, y: edge, width: inner, height: inner, fill: "none", stroke: "var(--line)" }),
    svg("path", { d: `M${at([0, 0])}L${at([1, 1])}`, stroke: "var(--c)", "stroke-dasharray": "4 4" }),
    svg("polyline", { points: places.join(" "), fill: "none", stroke: "var(--a)", "stroke-width": 1.5 }),
    ...places.map(([x, y], place) => svg("circle", { cx: x, cy: y, fill: "var(--a)",
      r: 2 + 6 * Math.sqrt(points[place][2] / all) })),
    svg("text", { x: edge, y: size - 8 }, "0"), svg("text", { x: size - edge - 4, y: size - 8 }, "1"),
    svg("text", { x: size / 2 - 30, y: size - 8 }, "predicted"),
    svg("text", { x: 4, y: edge + 8 }, "1"), svg("text", { x: 14, y: size / 2 + 24, transform: `rotate(-90 14 ${size / 2 + 24})` }, "observed"),
  );
  $("calibration").replaceChildren(root, counts);
}

addEventListener("DOMContentLoaded", () => {
  $("login").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    sessionStorage.setItem("token", token);
    begin();
  });
  $("range").addEventListener("change", () => samples.length && show(samples[samples.length - 1]));
  $("explain").addEventListener("submit", explain);
  setInterval(age, 1000);
  $("model").addEventListener("change", () => {
    samples = [];
    past = [];
    received = 0;
    $("explained").value = "{}";
    $("parts").replaceChildren();
    $("explain-answer").textContent = "";
    follow($("model").value);
  });
  addEventListener("resize", () => {
    for (const [id, { plot, height }] of Object.entries(charts))
      plot.setSize({ width: $(id).clientWidth, height });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (samples.length) show(samples[samples.length - 1]);
  });
  setInterval(refresh, 3000);
  begin();
});
