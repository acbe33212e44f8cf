"""Every format round trip, against files written by another hand (pyogrio, plain JSON, plain CSV)."""

import gzip
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.raw
import pytest
import shapely

from shoal.errors import GeometryError, OutputError
from shoal.space.grid import square_grid
from shoal.space.places import Zones, read_sites, read_zones, write_zones

SHAPES = np.array(
    [
        shapely.box(2.30, 48.80, 2.35, 48.85),
        shapely.MultiPolygon([shapely.box(2.35, 48.80, 2.40, 48.85), shapely.box(2.5, 48.80, 2.6, 48.85)]),
    ],
    dtype=object,
)
ZONES = Zones(ids=("é1", "02"), names=("Één", "Two"), geometry=SHAPES, crs="EPSG:4326")


def write_ogr(path, driver, geometry, fields, crs="EPSG:4326", geometry_type="Unknown", **more):
    pyogrio.raw.write(
        str(path),
        shapely.to_wkb(np.asarray(geometry, dtype=object)),
        [np.array(column, dtype=object) for column in fields.values()],
        list(fields),
        geometry_type=geometry_type,
        crs=crs,
        driver=driver,
        **more,
    )


@pytest.mark.parametrize(
    ("name", "driver"), [("z.geojson", "GeoJSON"), ("z.gpkg", "GPKG"), ("z.shp", "ESRI Shapefile")]
)
def test_zones_written_by_gdal(tmp_path, name, driver):
    kind = "Polygon" if driver == "ESRI Shapefile" else "Unknown"
    fields = {"code": ["é1", "02"], "label": ["Één", "Two"]}
    write_ogr(tmp_path / name, driver, SHAPES, fields, geometry_type=kind, encoding="UTF-8")
    zones = read_zones(tmp_path / name, id_column="code", name_column="label")
    assert (zones.ids, zones.names, zones.crs) == (ZONES.ids, ZONES.names, "EPSG:4326")
    assert shapely.equals(zones.geometry, SHAPES).all()


def zip_shapefiles(folder, target, inside="some folder/"):
    with zipfile.ZipFile(target, "w") as archive:
        for part in folder.glob("z*.*"):
            archive.write(part, inside + part.name)


def test_archives_with_two_shapefiles_or_something_else(tmp_path):
    for name, ids in (("z1", ["a", "b"]), ("z2", ["c", "d"])):
        write_ogr(tmp_path / f"{name}.shp", "ESRI Shapefile", SHAPES, {"zone": ids}, geometry_type="Polygon")
    zip_shapefiles(tmp_path, tmp_path / "all.zip")
    assert read_zones(tmp_path / "all.zip", layer="z2").ids == ("c", "d")
    with pytest.raises(GeometryError, match="layer-choice"):
        read_zones(tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(GeometryError, match="geometry-missing"):
        read_zones(tmp_path / "z.zip")


@pytest.mark.parametrize(("lost", "code"), [(".shx", "file-unreadable"), (".dbf", "id-column-missing")])
def test_shapefiles_with_a_part_missing(tmp_path, lost, code):
    write_ogr(tmp_path / "z.shp", "ESRI Shapefile", SHAPES, {"zone": ["a", "b"]}, geometry_type="Polygon")
    (tmp_path / f"z{lost}").unlink()
    with pytest.raises(GeometryError, match=code):
        read_zones(tmp_path / "z.shp")


@pytest.mark.parametrize("name", ["z.geojson", "z.json", "z.parquet", "z.geoparquet"])
def test_what_we_write_reads_back_the_same(tmp_path, name):
    write_zones(ZONES, tmp_path / name)
    zones = read_zones(tmp_path / name)
    assert (zones.ids, zones.names, zones.digest()) == (ZONES.ids, ZONES.names, ZONES.digest())


@pytest.mark.parametrize("name", ["z.geojson", "z.parquet"])
@pytest.mark.parametrize("crs", [None, "EPSG:2154"])
def test_planar_and_projected_zones_read_back(tmp_path, name, crs):
    zones = square_grid((650000, 6860000, 652000, 6861000), 1000.0, crs=crs)
    write_zones(zones, tmp_path / name)
    again = read_zones(tmp_path / name)
    if name == "z.parquet" or crs is None:
        assert (again.crs, again.digest()) == (crs, zones.digest())
    else:  # GeoJSON is lon/lat by its standard
        assert again.crs == "EPSG:4326"
        moved = shapely.get_coordinates(again.geometry) - shapely.get_coordinates(zones.to_lonlat().geometry)
        assert np.abs(moved).max() < 1e-12
        assert 2 < again.bounds[0] < 3


def test_geoparquet_metadata_follows_the_standard(tmp_path):
    write_zones(ZONES, tmp_path / "z.parquet")
    geo = json.loads(pq.read_schema(tmp_path / "z.parquet").metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    column = geo["columns"][geo["primary_column"]]
    assert column["encoding"] == "WKB"
    assert sorted(column["geometry_types"]) == ["MultiPolygon", "Polygon"]
    assert column["bbox"] == [2.30, 48.80, 2.6, 48.85]
    assert "crs" not in column  # the standard's way to say longitude, latitude


def test_zones_are_not_written_in_other_formats_or_missing_folders(tmp_path):
    with pytest.raises(OutputError, match="format-unknown"):
        write_zones(ZONES, tmp_path / "z.shp")
    for name in ("z.geojson", "z.parquet"):
        with pytest.raises(OutputError, match="not-written"):
            write_zones(ZONES, tmp_path / "nowhere" / name)


def test_ids_read_as_whole_numbers_or_keep_leading_zeros(tmp_path):
    table = {"id": [75101.0, 75102.0], "code": [7, 8]}
    geo = {"primary_column": "g", "columns": {"g": {"encoding": "WKB", "geometry_types": []}}}
    arrow = pa.table({**table, "g": pa.array(shapely.to_wkb(SHAPES).tolist(), pa.binary())})
    pq.write_table(arrow.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "z.parquet")
    assert read_zones(tmp_path / "z.parquet").ids == ("75101", "75102")
    assert read_zones(tmp_path / "z.parquet", id_column="code").ids == ("7", "8")
    assert read_zones(tmp_path / "z.parquet", id_column="row").ids == ("Z0001", "Z0002")
    table = pa.table({"id": ["007", "008"], "x": [1000.0, 2000.0], "y": [5000.0, 6000.0]})
    pq.write_table(table, tmp_path / "s.parquet")
    sites = read_sites(tmp_path / "s.parquet")
    assert (sites.ids, sites.crs) == (("007", "008"), None)
    (tmp_path / "s.csv").write_text("site,lon,lat\n007,2.31,48.81\n012,2.36,48.82\n")
    assert read_sites(tmp_path / "s.csv").ids == ("007", "012")


def test_digest_changes_with_ids_shapes_and_coordinates():
    moved = np.array([shapely.box(2.30, 48.80, 2.35, 48.8500001), SHAPES[1]], dtype=object)
    others = [
        Zones(("é1", "03"), ZONES.names, SHAPES, "EPSG:4326"),
        Zones(ZONES.ids, ZONES.names, moved, "EPSG:4326"),
        Zones(ZONES.ids, ZONES.names, SHAPES, None),
        Zones(ZONES.ids[::-1], ZONES.names, SHAPES[::-1], "EPSG:4326"),
    ]
    assert len({ZONES.digest(), *(other.digest() for other in others)}) == 5


SITES_CSV = "site,lon,lat\nA,2.31,48.81\nB,2.36,48.82\n"


def check_sites(sites):
    assert sites.ids == ("A", "B")
    assert (sites.x.tolist(), sites.y.tolist(), sites.crs) == ([2.31, 2.36], [48.81, 48.82], "EPSG:4326")


def test_sites_from_csv_plain_and_compressed_and_from_parquet(tmp_path):
    (tmp_path / "s.csv").write_text(SITES_CSV)
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(SITES_CSV.encode()))
    (tmp_path / "s.tsv").write_text(SITES_CSV.replace(",", "\t"))
    for name in ("s.csv", "s.csv.gz", "s.tsv"):
        check_sites(read_sites(tmp_path / name))
    table = pa.table({"site": ["A", "B"], "lon": [2.31, 2.36], "lat": [48.81, 48.82]})
    pq.write_table(table, tmp_path / "s.parquet")
    check_sites(read_sites(tmp_path / "s.parquet"))


@pytest.mark.parametrize(("name", "driver"), [("s.geojson", "GeoJSON"), ("s.gpkg", "GPKG")])
def test_sites_from_points(tmp_path, name, driver):
    write_ogr(tmp_path / name, driver, shapely.points([2.31, 2.36], [48.81, 48.82]), {"site": ["A", "B"]})
    check_sites(read_sites(tmp_path / name))


def test_sites_by_row_and_by_named_columns(tmp_path):
    (tmp_path / "s.csv").write_text("east,north\n650000,6860000\n651000,6861000\n")
    sites = read_sites(
        tmp_path / "s.csv", id_column="row", x_column="east", y_column="north", crs="EPSG:2154"
    )
    assert (sites.ids, sites.crs) == (("S0001", "S0002"), "EPSG:2154")
    assert (
        sites.digest()
        != read_sites(tmp_path / "s.csv", id_column="row", x_column="east", y_column="north").digest()
    )
