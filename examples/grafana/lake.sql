-- ClickHouse: the views that lake.json reads. Replace LAKE by the folder of the lake below user_files, or file(…) by s3('https://…').
CREATE OR REPLACE VIEW jitlat_summaries AS SELECT * FROM file('LAKE/summaries/*/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW jitlat_rollups AS SELECT *, hour_start AS started FROM file('LAKE/rollups/*/*/*.parquet', Parquet);
