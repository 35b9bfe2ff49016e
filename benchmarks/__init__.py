"""Measurements behind the figures of the README and the website, by the page that has them.

- ``docs/guides/pixels.md``: `pixels`
- ``docs/guides/many-cores.md``: `metaworld`, `vector`, `path_wise`, `ray`, `sb3`, `families`,
  `learning`, `scale`
- ``docs/guides/families.md``: `meta_learning`
- ``docs/what-scores-depend-on.md``: `protocols`, with `bias`
- ``docs/learners.md``: `imitation`, `reference`
- ``docs/guides/evaluation.md``: `coverage`
- ``docs/guarantees.md``: `soak`
- ``CONTRIBUTING.md``: `distances`
"""
