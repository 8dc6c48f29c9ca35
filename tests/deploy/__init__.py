"""What lies around the package: releases, units, manifests, configurations of dashboards."""
