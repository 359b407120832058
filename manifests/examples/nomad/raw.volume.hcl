id           = "raw"
name         = "raw"
type         = "csi"
plugin_id    = "snap-csi"
capacity_min = "1GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "block-device"
}

parameters {
  policy = "example-policy"
}
