// Shows /openapi.json: a card for each operation, where it can be tried out.
"use strict";

const made = (tag, text, kind) => {
  const node = document.createElement(tag);
  // Text between backticks is code.
  (text ?? "").split("`").forEach((part, place) => {
    if (place % 2) node.append(made("code", part));
    else if (part) node.append(part);
  });
  if (kind) node.className = kind;
  return node;
};

const EXAMPLES = {
  create: { name: "clicks" },
  predict: { id: "a", x: { price: 3.5, shop: "corner" } },
  learn: { x: { price: 3.5, shop: "corner" }, y: 1 },
  label: { id: "a", y: 1 },
  add_version: { parameters: { sketch: "none" } },
};

// A form that sends the request and shows the answer; the token is that of the live page.
function trial(path, method, operation, parameters) {
  const box = made("details"), form = made("form", "", "try"), answer = made("pre");
  const field = (name, value, secret) => {
    const label = made("label", `${name} `), input = made("input");
    input.value = value;
    if (secret) input.type = "password";
    label.append(input);
    form.append(label);
    return input;
  };
  const inputs = parameters.map(({ name }) => [name, field(name, name === "version" ? "1" : "clicks")]);
  const needs = operation.security?.length !== 0;
  const token = needs ? field("token, if the service needs one", sessionStorage.getItem("token") ?? "", true) : null;
  const text = made("textarea"), json = operation.requestBody?.content["application/json"];
  text.setAttribute("aria-label", "body");
  text.value = JSON.stringify(EXAMPLES[operation.operationId] ?? {}, null, 2);
  if (json) form.append(text);
  form.append(made("button", "Send"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const url = inputs.reduce((url, [name, input]) =>
      url.replace(`{${name}}`, encodeURIComponent(input.value)), path);
    const headers = token?.value ? { authorization: `Bearer ${token.value}` } : {};
    if (json) headers["content-type"] = "application/json";
    try {
      const sent = await fetch(url, { method: method.toUpperCase(), headers, body: json ? text.value : undefined });
      const kind = sent.headers.get("content-type") ?? "";
      const content = kind.includes("json") || kind.startsWith("text/plain") ? await sent.text() : `(${kind})`;
      answer.textContent = `${sent.status} ${sent.statusText}\n${content.slice(0, 5000)}`;
    } catch (error) {
      answer.textContent = error.message;
    }
  });
  if (operation.operationId === "events") return made("p", "Try it out: it is the stream of the live page.", "note");
  box.append(made("summary", "try it out"), form);
  return box;
}

addEventListener("DOMContentLoaded", async () => {
  const api = await (await fetch("/openapi.json")).json();
  const resolved = (schema) => schema?.$ref
    ? { [schema.$ref.split("/").pop()]: api.components.schemas[schema.$ref.split("/").pop()] } : schema;
  for (const [path, operations] of Object.entries(api.paths))
    for (const [method, one] of Object.entries(operations)) {
      if (method === "parameters") continue;
      const card = made("section", "", "wide");
      card.append(made("h2", `${method.toUpperCase()} ${path}`), made("p", one.summary),
        made("p", one.description ?? "Needs no token.", "note"));
      for (const [kind, { schema }] of Object.entries(one.requestBody?.content ?? {})) {
        const body = made("details");
        body.append(made("summary", `body: ${kind}`),
          made("pre", JSON.stringify(resolved(schema), null, 2)));
        card.append(body);
      }
      const answers = made("details");
      answers.append(made("summary", "answers"), ...Object.entries(one.responses)
        .map(([status, { description }]) => made("p", `${status}: ${description}`, "note")));
      card.append(answers);
      card.append(trial(path, method, one, operations.parameters ?? []));
      document.getElementById("paths").append(card);
    }
});
