"""Parts of HTTP that routes use: headers, ETags, pages, downloads, compression."""
