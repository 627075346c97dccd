// The live page: samples come as server-sent events, read with fetch so that the token is a header.
"use strict";

const $ = (id) => document.getElementById(id);
const HISTORY = 600;
let token = sessionStorage.getItem("token") || "";
let samples = [];
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
const memory = (value) =>
  value < 1e6 ? `${short(value / 1e3)} kB` : value < 1e9 ? `${short(value / 1e6)} MB` : `${short(value / 1e9)} GB`;
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
  if (kind === "history") { samples = data; if (data.length) show(data[data.length - 1]); }
  else if (kind === "inside") inside(data);
  else if (kind === "sample" && data.time !== samples[samples.length - 1]?.time) {
    samples.push(data);
    if (samples.length > HISTORY) samples.shift();
    show(data);
  }
}

function show(now) {
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
  const times = samples.map(({ time }) => time);
  const line = (version, what) => samples.map((one) => one.versions[version]?.[what] ?? null);
  const champion = String(now.champion);
  $("loss-section").hidden = names.length < 2;
  if (learned) {  // a hidden box has no width to draw in
    const versions = (what) => names.map((name, place) => {
      const best = name === champion;
      const after = names.indexOf(champion) < place ? place - 1 : place;
      return [best ? `version ${name} (champion)` : `version ${name}`,
        best ? "--a" : SHADOWS[after % SHADOWS.length], line(name, what), best ? 2.2 : 1.4];
    });
    draw("error-chart", 260, [...versions("error"),
      ["last label", "--c", line(champion, "last_label"), 1, [3, 4]],
      ["prior", "--c", line(champion, "prior"), 1.2, [9, 4]],
    ], times, errors);
    if (names.length > 1) draw("loss-chart", 200, versions("loss"), times);
    draw("rate-chart", 150, [["events/s", "--d", samples.map(({ rate }) => rate), 1.6]], times);
  }
  $("versions").tBodies[0].replaceChildren(...names.map((name) => {
    const one = now.versions[name];
    return row([name, one.role, one.origin, short(one.learned, 5), short(one.loss, 4),
      short(one.mean_loss, 4), errors(one.error)], one.problem);
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
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line") } };
  const plot = new uPlot({
    width: box.clientWidth, height, cursor: { drag: { x: false, y: false } },
    legend: { show: lines.length > 1, live: false, markers: {
      fill: (_, n) => (lines[n - 1]?.[4] ? "transparent" : colour(lines[n - 1]?.[1] ?? "--c")),
      dash: (_, n) => (lines[n - 1]?.[4]?.[0] > 5 ? "dashed" : lines[n - 1]?.[4] ? "dotted" : "solid") } },
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.05] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map(clock), space: 80, size: 34 }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => unit(tick)) }],
    series: [{ value: (_, t) => (t ? clock(t) : "–") },
      ...lines.map(([label, name, , width, dash]) => ({ label, stroke: colour(name), width, dash,
        points: { show: (plot) => plot.data[0].length < 3 }, value: (_, v) => unit(v) }))],
  }, data, box);
  charts[id] = { plot, key, height };
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
  const classes = now.task !== "regression";
  const name = classes && now.loss === "logistic" ? "log loss" : `${now.loss} loss`;
  errors = classes ? percent : (value) => short(value, 4);
  $("error-title").textContent = classes ? "Wrong predictions" : `Mean ${name}`;
  $("versions").classList.toggle("without-errors", !classes);
  $("prior-text").textContent = classes ? "most common one" : "mean of all so far";
  $("loss-name").textContent = `Mean ${name}`;
  bars("experts", now.experts.map(([alpha, rows, share]) =>
    [`α = ${alpha}${rows ? `, last ${rows.toLocaleString("en")} rows` : ""}`, share, percent(share)]));
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
  $("footer").textContent = `${now.features.toLocaleString("en")} feature${now.features === 1 ? "" : "s"} · `
    + `${memory(now.bytes)} in memory · ${name}`;
}

function calibration(points) {
  const size = 220, edge = 26, inner = size - 2 * edge;
  const at = ([said, right]) => [edge + said * inner, size - edge - right * inner];
  const svg = (tag, settings, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(settings)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    return node;
  };
  const all = points.reduce((sum, [, , count]) => sum + count, 0) || 1;
  const places = points.map(at);
  const root = svg("svg", { viewBox: `0 0 ${size} ${size}`, style: "width:100%;max-width:300px",
    role: "img", "aria-label": "Calibration" });
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
  $("calibration").replaceChildren(root);
}

addEventListener("DOMContentLoaded", () => {
  $("login").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    sessionStorage.setItem("token", token);
    begin();
  });
  $("model").addEventListener("change", () => { samples = []; follow($("model").value); });
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
