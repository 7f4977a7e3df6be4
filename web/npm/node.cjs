/* node.cjs - the package for `require`. Every function is asynchronous, so the module is loaded when one is called. */
"use strict";
const library = () => import("./node.mjs");
for (const name of ["init", "run", "plan", "estimate", "arena", "report", "picture"])
  exports[name] = async (...values) => (await library())[name](...values);
