"use strict";

// Operators who are logged in to the console try things with their session, and a change needs its CSRF token too.
// Others give a token by "Authorize". Signatures cannot be made here.
const csrfToken = () => document.cookie.match(/(?:^|; )csrftoken=([^;]*)/)?.[1];

const page = document.getElementById("page");

SwaggerUIBundle({
  url: page.dataset.document,
  domNode: page,
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  persistAuthorization: false,
  requestInterceptor: (request) => {
    const token = csrfToken();
    if (token && !["GET", "HEAD"].includes(request.method ?? "GET")) {
      request.headers["X-CSRFToken"] = token;
    }
    return request;
  },
});
