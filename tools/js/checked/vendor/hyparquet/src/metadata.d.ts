export { parquetMetadata } from "hyparquet";
