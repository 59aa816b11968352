// BokehJS makes style elements, whose texts nobody knows before: each gets the page's nonce, which
// the Content-Security-Policy asks for. Runs before BokehJS, which makes the first as it is loaded.
(() => {
  "use strict";
  const nonce = document.querySelector("style[nonce]").nonce;
  const create = document.createElement;
  document.createElement = function (name, options) {
    const element = create.call(this, name, options);
    if (String(name).toLowerCase() === "style") element.nonce = nonce;
    return element;
  };
})();
