"use strict";

const page = document.getElementById("page");

Redoc.init(page.dataset.document, { expandResponses: "200,201,202", hideDownloadButton: false }, page);
