.PHONY: plugin-test
## plugin-test: the plug-in of kubectl (kubectl snapcsi), in dash and bash, against a kubectl that plays a cluster
plugin-test:
	$(Q)test/kubectl/plugin.sh
