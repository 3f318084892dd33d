export { parquetRead } from "hyparquet";
