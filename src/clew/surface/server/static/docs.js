"use strict";
// Draws the operations of /openapi.json and lets a reader try them. No library, nothing from elsewhere.

function make(name, text, ...children) {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
}

function follow(schema, spec, depth = 0) {
  if (!schema || depth > 6) return schema;
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return follow(spec.components.schemas[name], spec, depth + 1);
  }
  return schema;
}

function example(schema, spec, depth = 0) {
  schema = follow(schema, spec);
  if (!schema || depth > 4) return null;
  if ("default" in schema) return schema.default;
  if (schema.anyOf) return example(schema.anyOf[0], spec, depth + 1);
  if (schema.enum) return schema.enum[0];
  if (schema.type === "object") {
    const made = {};
    for (const name of schema.required || []) made[name] = example((schema.properties || {})[name], spec, depth + 1);
    return made;
  }
  if (schema.type === "array") return [example(schema.items, spec, depth + 1)];
  return { string: "text", integer: schema.minimum || 1, number: 0.5, boolean: false }[schema.type] ?? null;
}

function drawParameters(operation) {
  const table = make("table");
  const inputs = [];
  for (const each of operation.parameters || []) {
    const input = make("input");
    inputs.push([each, input]);
    table.append(make("tr", "", make("td", each.name + (each.required ? " *" : "")), make("td", each.in),
      make("td", "", input), make("td", each.description || "")));
  }
  return [table, inputs];
}

function drawFields(schema, spec) {
  const table = make("table");
  for (const [name, field] of Object.entries((follow(schema, spec) || {}).properties || {})) {
    const shown = follow(field, spec);
    const kinds = shown.anyOf ? shown.anyOf.map((side) => follow(side, spec).type).join(" or ") : shown.type;
    table.append(make("tr", "", make("td", name), make("td", kinds || ""), make("td", field.description || "")));
  }
  return table;
}

function drawOperation(path, method, operation, spec) {
  const box = make("details", "", make("summary", "", make("b", method.toUpperCase()), make("code", path),
    make("span", " " + (operation.description || operation.summary || ""))));
  const [table, inputs] = drawParameters(operation);
  box.append(table);
  const content = (operation.requestBody || {}).content || {};
  const schema = (content["application/json"] || {}).schema;
  let body = null;
  if (schema) {
    box.append(drawFields(schema, spec));
    body = make("textarea");
    body.value = JSON.stringify(example(schema, spec), null, 1);
    box.append(body);
  }
  const shown = make("pre");
  const button = make("button", "Send");
  button.addEventListener("click", async () => {
    let address = path;
    const query = new URLSearchParams();
    for (const [each, input] of inputs) {
      if (each.in === "path") address = address.replace(`{${each.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.append(each.name, input.value);
    }
    const headers = body ? { "content-type": "application/json" } : {};
    const key = document.getElementById("key").value;
    if (key) headers.authorization = `Bearer ${key}`;
    const text = query.toString();
    const reply = await fetch(address + (text ? `?${text}` : ""), { method, headers, body: body ? body.value : undefined });
    const got = await reply.text();
    let pretty = got;
    try { pretty = JSON.stringify(JSON.parse(got), null, 1); } catch { /* not JSON */ }
    shown.textContent = `${reply.status} ${reply.statusText}\n${pretty}`;
  });
  if (!content["multipart/form-data"]) box.append(button, shown);
  return box;
}

async function draw() {
  const spec = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = spec.info.description;
  const main = document.getElementById("operations");
  main.replaceChildren();
  for (const [path, methods] of Object.entries(spec.paths))
    for (const [method, operation] of Object.entries(methods)) main.append(drawOperation(path, method, operation, spec));
}

draw();
