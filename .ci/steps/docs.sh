# The website.
"$bin/mkdocs" build --strict --site-dir "$work/site"
