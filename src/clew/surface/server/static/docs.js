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

function sides(schema, spec) {
  // What a field may be, without null.
  const shown = follow(schema, spec) || {};
  const all = (shown.anyOf || [shown]).map((side) => follow(side, spec) || {});
  return all.flatMap((side) => (side.anyOf && !side.type ? sides(side, spec) : [side])).filter((side) => side.type !== "null");
}

function describeKind(schema, spec) {
  const kinds = sides(schema, spec).map((side) => {
    if (side.enum) return side.enum.map((value) => JSON.stringify(value)).join(" or ");
    if ("const" in side) return JSON.stringify(side.const);
    if (side.type === "array") return `list of ${describeKind(side.items, spec)}`;
    const least = side.minimum ?? side.minLength, most = side.maximum ?? side.maxLength;
    const unit = side.type === "string" ? " characters" : "";
    const range = least !== undefined && most !== undefined ? ` (${least} to ${most}${unit})` : most !== undefined ? ` (at most ${most}${unit})` : "";
    return `${side.type || "any"}${range}`;
  });
  return [...new Set(kinds)].join(" or ");
}

function drawParameters(operation, spec) {
  const table = make("table");
  const inputs = [];
  for (const each of operation.parameters || []) {
    const input = make("input");
    inputs.push([each, input]);
    table.append(make("tr", "", make("td", each.name + (each.required ? " (required)" : "")), make("td", each.in),
      make("td", describeKind(each.schema, spec)), make("td", "", input), make("td", each.description || "")));
  }
  return [table, inputs];
}

function drawFields(schema, spec, depth = 0) {
  // A row for each field, and below it those of the objects in it.
  const found = [].concat(...sides(schema, spec).map((side) => (side.type === "array" ? sides(side.items, spec) : [side])));
  const boxes = found.filter((side) => side.properties).map((side) => {
    const table = make("table");
    for (const [name, field] of Object.entries(side.properties)) {
      const needed = (side.required || []).includes(name);
      const preset = field.default === undefined || field.default === null ? "" : `default ${JSON.stringify(field.default)}`;
      table.append(make("tr", "", make("td", "", make("code", name)), make("td", needed ? "required" : preset),
        make("td", describeKind(field, spec)), make("td", field.description || "")));
      const inside = depth < 2 ? drawFields(field, spec, depth + 1) : null;
      if (inside) {
        const cell = make("td", "", make("details", "", make("summary", `fields of ${name}`), inside));
        cell.colSpan = 4;
        table.append(make("tr", "", cell));
      }
    }
    return make("div", "", make("p", side.description || ""), table);
  });
  return boxes.length ? make("div", "", ...boxes) : null;
}

function drawOperation(path, method, operation, spec) {
  const box = make("details", "", make("summary", "", make("b", method.toUpperCase()), make("code", path),
    make("span", " " + (operation.description || operation.summary || "").split("\n\n")[0])));
  const more = (operation.description || "").split("\n\n").slice(1).join("\n\n");
  if (more) box.append(make("p", more));
  const [table, inputs] = drawParameters(operation, spec);
  if (inputs.length) box.append(make("h4", "Parameters"), table);
  const content = (operation.requestBody || {}).content || {};
  const schema = (content["application/json"] || {}).schema;
  let body = null;
  if (schema) {
    box.append(make("h4", "Body"), drawFields(schema, spec) || "");
    body = make("textarea");
    body.value = JSON.stringify(example(schema, spec), null, 1);
    box.append(body);
  }
  const files = follow((content["multipart/form-data"] || {}).schema, spec);
  if (files) box.append(make("h4", "Form"), drawFields(files, spec) || "");
  const reply = Object.entries(operation.responses || {}).find(([status]) => status < 300);
  const replied = reply && drawFields(((reply[1].content || {})["application/json"] || {}).schema, spec);
  if (replied) box.append(make("details", "", make("summary", `Reply (${reply[0]})`), replied));
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
