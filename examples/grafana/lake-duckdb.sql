-- DuckDB: the views that lake-duckdb.json reads. Replace LAKE by the folder of the lake, or by s3://….
CREATE OR REPLACE VIEW jitlat_summaries AS SELECT * FROM read_parquet('LAKE/summaries/*/*/*.parquet', union_by_name = true, hive_partitioning = true);
CREATE OR REPLACE VIEW jitlat_rollups AS SELECT *, hour_start AS started FROM read_parquet('LAKE/rollups/*/*/*.parquet', union_by_name = true, hive_partitioning = true);
