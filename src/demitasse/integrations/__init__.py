"""Parts of demitasse that plug into other libraries; each needs that library and imports it."""
