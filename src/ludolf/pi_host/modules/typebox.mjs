// `typebox`: builders of JSON Schema. The rest of the library comes from the real one.
import { namespace } from "./namespace.mjs";

const KIND = "~kind";
const INTEGER_KEYS = "^-?(?:0|[1-9][0-9]*)$";
const NUMBER_KEYS = "^-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?$";
const ANY_KEYS = "^.*$";

const hide = (schema, name, value) =>
  Object.defineProperty(schema, name, {
    value,
    writable: true,
    enumerable: false,
    configurable: true,
  });
const make = (kind, schema, options) => hide({ ...schema, ...options }, KIND, kind);
const simple = (kind, schema) => (options) => make(kind, schema, options);
const copy = (schema) =>
  Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema));
const marked = (name) => (schema) => hide(copy(schema), name, true);
const isOptional = (schema) => schema?.["~optional"] === true;
const is = (kind) => (schema) => schema?.[KIND] === kind;

function without(schema, name) {
  const plain = copy(schema);
  delete plain[name];
  return plain;
}

function object(properties, options) {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name]));
  const needs = required.length ? { required } : {};
  return make("Object", { type: "object", ...needs, properties }, options);
}

function literal(value, options) {
  return make("Literal", { type: typeof value, const: value }, options);
}

function union(schemas, options) {
  return make("Union", { anyOf: schemas }, options);
}

// A union of what is left: nothing and a single schema are not unions.
function narrowed(schemas, options) {
  if (schemas.length === 0) return Type.Never(options);
  if (schemas.length > 1) return union(schemas, options);
  return Object.assign(copy(schemas[0]), options);
}

function enumeration(values, options) {
  const list = Array.isArray(values) ? values : enumValues(values);
  return make("Enum", { enum: [...list] }, options);
}

// Enums of TypeScript with numbers also map the number to the name.
function enumValues(values) {
  const names = Object.keys(values).filter((name) => Number.isNaN(Number(name)));
  return [...new Set(names.map((name) => values[name]))];
}

function record(key, value, options) {
  const names = literalsOf(key);
  if (names !== null) {
    return object(Object.fromEntries(names.map((name) => [name, value])), options);
  }
  return make("Record", { type: "object", patternProperties: { [patternOf(key)]: value } }, options);
}

function patternOf(key) {
  if (is("Integer")(key)) return INTEGER_KEYS;
  if (is("Number")(key)) return NUMBER_KEYS;
  return key?.pattern ?? ANY_KEYS;
}

function literalsOf(key) {
  if (Array.isArray(key)) return key.map(String);
  if (typeof key === "string") return [key];
  if (key?.const !== undefined) return [String(key.const)];
  if (Array.isArray(key?.enum)) return key.enum.map(String);
  if (!Array.isArray(key?.anyOf)) return null;
  const names = key.anyOf.map(literalsOf);
  return names.includes(null) ? null : names.flat();
}

function tuple(items, options) {
  const limits = { additionalItems: false, items, minItems: items.length };
  return make("Tuple", { type: "array", ...limits }, options);
}

// The properties of objects and of intersections of them.
function propertiesOf(schema) {
  if (Array.isArray(schema?.allOf)) return Object.assign({}, ...schema.allOf.map(propertiesOf));
  return schema?.properties ?? {};
}

// An object of changed properties; options of the old one do not count.
function remade(schema, change, options) {
  return object(Object.fromEntries(Object.entries(propertiesOf(schema)).flatMap(change)), options);
}

const picked = (keep) => (schema, names, options) => {
  const listed = new Set(literalsOf(names) ?? []);
  const change = ([name, value]) => (listed.has(name) === keep ? [[name, value]] : []);
  return remade(schema, change, options);
};

const partial = (schema, options) =>
  remade(schema, ([name, value]) => [[name, Type.Optional(value)]], options);
const required = (schema, options) =>
  remade(schema, ([name, value]) => [[name, without(value, "~optional")]], options);
const composite = (schemas, options) => object(propertiesOf({ allOf: schemas }), options);

function keyOf(schema, options) {
  const names = Object.keys(propertiesOf(schema)).map((name) => literal(name));
  return narrowed(names, options);
}

function index(schema, names, options) {
  const properties = propertiesOf(schema);
  const found = (literalsOf(names) ?? []).map((name) => properties[name]).filter(Boolean);
  return narrowed(found, options);
}

const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);
const members = (schema) => schema?.anyOf ?? [schema];
// Whether a type is in another, as far as literals and plain types go.
const inside = (left, right) =>
  members(right).some(
    (one) => same(left, one) || (left.const !== undefined && left.type === one.type && !("const" in one)),
  );
const exclude = (left, right, options) =>
  narrowed(members(left).filter((one) => !inside(one, right)), options);
const extract = (left, right, options) =>
  narrowed(members(left).filter((one) => inside(one, right)), options);
const nonNullable = (schema, options) =>
  narrowed(members(schema).filter((one) => !["null", "undefined"].includes(one.type)), options);

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const PARTS = { string: ".*", number: NUMBER_KEYS.slice(1, -1), integer: INTEGER_KEYS.slice(1, -1) };

function templateLiteral(source, options) {
  const parts = typeof source === "string" ? templateParts(source) : source.map(templatePart);
  return make("TemplateLiteral", { type: "string", pattern: `^${parts.join("")}$` }, options);
}

const templateParts = (text) =>
  text.split(/(\$\{[^}]*\})/).map((part) => {
    const name = /^\$\{(.*)\}$/.exec(part)?.[1].trim();
    return name === undefined ? escape(part) : (PARTS[name] ?? ".*");
  });

function templatePart(schema) {
  if (schema.const !== undefined) return escape(String(schema.const));
  if (schema.anyOf) return `(${schema.anyOf.map(templatePart).join("|")})`;
  if (schema.type === "boolean") return "(false|true)";
  return PARTS[schema.type] ?? ".*";
}

function unsafe(schema) {
  return hide({ ...schema }, "~unsafe", null);
}

function cyclic(defs, name, options) {
  const named = Object.entries(defs).map(([id, schema]) => [
    id,
    make(schema[KIND], schema, { $id: id }),
  ]);
  return make("Cyclic", { $defs: Object.fromEntries(named), $ref: name }, options);
}

const KINDS = {
  Any: simple("Any", {}),
  Unknown: simple("Unknown", {}),
  Never: simple("Never", { not: {} }),
  Null: simple("Null", { type: "null" }),
  Undefined: simple("Undefined", { type: "undefined" }),
  Void: simple("Void", { type: "void" }),
  String: simple("String", { type: "string" }),
  Number: simple("Number", { type: "number" }),
  Integer: simple("Integer", { type: "integer" }),
  Boolean: simple("Boolean", { type: "boolean" }),
  BigInt: simple("BigInt", { type: "bigint" }),
  Symbol: simple("Symbol", { type: "symbol" }),
  Literal: literal,
  Enum: enumeration,
  Union: union,
  Intersect: (schemas, options) => make("Intersect", { allOf: schemas }, options),
  Object: object,
  Array: (items, options) => make("Array", { type: "array", items }, options),
  Tuple: tuple,
  Record: record,
  Ref: (name, options) => make("Ref", { $ref: name }, options),
  Cyclic: cyclic,
  Function: (parameters, returnType, options) =>
    make("Function", { type: "function", parameters, returnType }, options),
  TemplateLiteral: templateLiteral,
};

export const Type = {
  ...KINDS,
  Unsafe: unsafe,
  Optional: marked("~optional"),
  Readonly: marked("~readonly"),
  Partial: partial,
  Required: required,
  Pick: picked(true),
  Omit: picked(false),
  Composite: composite,
  KeyOf: keyOf,
  Index: index,
  Exclude: exclude,
  Extract: extract,
  NonNullable: nonNullable,
};

export const guards = {
  IsOptional: isOptional,
  IsReadonly: (schema) => schema?.["~readonly"] === true,
  IsKind: (schema, kind) => schema?.[KIND] === kind,
  IsSchema: (schema) => typeof schema === "object" && schema !== null && !Array.isArray(schema),
  IsUnsafe: (schema) => typeof schema === "object" && schema !== null && "~unsafe" in schema,
};
for (const kind of Object.keys(KINDS)) guards[`Is${kind}`] = is(kind);

export default (host) => {
  const type = namespace("typebox", { ...Type, ...guards }, host, { path: ["Type"] });
  return namespace("typebox", { ...Type, ...guards, Type: type, default: type }, host);
};
