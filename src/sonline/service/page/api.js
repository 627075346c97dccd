// Shows /openapi.json: a card for each operation.
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
      document.getElementById("paths").append(card);
    }
});
