"""Zip archives with one file, several, or none that can be read; cut short and locked."""

import zipfile

import numpy as np
import pyogrio.raw
import pytest
import shapely

from shoal.errors import GeometryError
from shoal.space.layers import read_layer, read_zipped


def by_gdal(path, driver, shape, zone, **more):
    pyogrio.raw.write(
        str(path), shapely.to_wkb(np.array([shape])), [np.array(zone)], ["zone"],
        geometry_type=shape.geom_type, crs="EPSG:2154", driver=driver, **more,
    )  # fmt: skip


def archive_of(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return path


def test_geojson_and_geopackage_in_an_archive(tmp_path):
    shape = b'{"type": "Point", "coordinates": [1, 2]}'
    point = b'{"type": "Feature", "properties": {"zone": "a"}, "geometry": ' + shape + b"}"
    assert read_layer(archive_of(tmp_path / "a.zip", z_geojson=point)).columns == {"zone": ["a"]}
    by_gdal(tmp_path / "z.gpkg", "GPKG", shapely.Point(1, 2), ["b"], layer="inner")
    both = archive_of(tmp_path / "b.zip", y_geojson=point, z_gpkg=(tmp_path / "z.gpkg").read_bytes())
    rows = read_layer(both, layer="z")
    assert (rows.columns["zone"], rows.crs, rows.geometry[0].wkt) == (["b"], "EPSG:2154", "POINT (1 2)")
    only = archive_of(tmp_path / "c.zip", z_gpkg=(tmp_path / "z.gpkg").read_bytes())
    assert read_layer(only, layer="inner").columns["zone"] == ["b"]
    with pytest.raises(GeometryError, match="layer-choice"):
        read_layer(only, layer="outer")


def test_archives_cut_or_locked(tmp_path):
    by_gdal(tmp_path / "z.shp", "ESRI Shapefile", shapely.box(0, 0, 10, 10), ["z0"])
    parts = {f"z_{part.suffix[1:]}": part.read_bytes() for part in tmp_path.glob("z.*")}
    path = archive_of(tmp_path / "z.zip", **parts)
    assert read_zipped(path).columns == {"zone": ["z0"]}
    content = path.read_bytes()
    for size in range(4, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(GeometryError, match="file-unreadable"):
            read_zipped(path)
    encrypted = bytearray(content)
    for at in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        encrypted[at] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(GeometryError, match="encrypted") as caught:
        read_zipped(path)
    assert caught.value.code == "file-unreadable"
